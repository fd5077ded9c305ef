"""Excel files: the first sheet is read, and written with nothing but its holes changed.

openpyxl reads; it comes with `pip install 'plmcmc[excel]'`.
"""

from __future__ import annotations

import io
import lzma
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import pandas as pd

from plmcmc.storage.strict_json import shown
from plmcmc.tables.cells import Worded, Words, markers_of, reader_of
from plmcmc.tables.kinds import Flag, Kinds, check_names
from plmcmc.tables.workbook import Sheet, letters_of, repacked, sheet_path

# Cells, and the empty places before them in their rows: a million rows of a hundred columns.
MOST_SPREAD = 100_000_000
# Whatever zipfile, expat and openpyxl raise, by how a file is damaged.
_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
    ElementTree.ParseError,
    expat.ExpatError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class _Refused(ValueError):
    """A workbook that is whole, and no table."""


@dataclass(frozen=True)
class ExcelTable(Worded):
    """The table on the first sheet of an Excel file.

    Attributes:
        path: where it was read.
        content: the file's bytes.
        head: the row with the names.
        columns: where columns are, by name, from 1.
        lines: where rows are; blank ones are left out.
        cells: columns of values as openpyxl reads them, by name.
        words: the cells as words.
    """

    path: Path
    content: bytes
    head: int
    columns: dict[str, int]
    lines: list[int]
    cells: dict[str, list[Any]]
    words: Words

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.columns)

    @property
    def rows(self) -> int:
        """How many rows of data there are."""
        return len(self.lines)

    def filled(self, known: Kinds, frame: pd.DataFrame, flag: Flag | None = None) -> bytes:
        """Return the file with values of a frame at the holes of these columns.

        Args:
            known: the columns.
            frame: their values.
            flag: a last column to add.
        """
        new: dict[tuple[int, int], Any] = {}
        for name, kind in known.kinds.items():
            holes = np.flatnonzero(self.missing(name))
            if len(holes):
                store = self._storing(name, kind, known.levels.get(name))
                found = frame[name].tolist()
                new |= {(self.lines[r], self.columns[name]): store(found[r]) for r in holes}
        if flag is not None:
            place = max(self.columns.values()) + 1
            new[self.head, place] = flag.name
            new |= {(self.lines[r], place): bool(told) for r, told in enumerate(flag.rows)}
        with zipfile.ZipFile(io.BytesIO(self.content)) as package:
            path = sheet_path(package)
            return repacked(package, path, Sheet(package.read(path)).replaced(new))

    def _storing(self, name: str, kind: str, levels: Sequence[Any] | None) -> Callable[[Any], Any]:
        """Return what turns a value into a cell's, as the column has it: 3, not "3"."""
        if kind == "continuous":
            return float
        if kind == "integer":
            return round
        values = self.words.values(name, reader_of(kind, levels))
        stored = dict(zip(reversed(values), reversed(self.cells[name]), strict=True))

        def store(value: Any) -> Any:
            found = stored.get(value, value)
            return _word(found) if isinstance(found, date | time) else found

        return store


class _Grid(NamedTuple):
    """Cells of a sheet that hold something, by row and column, and the XML they come from."""

    values: dict[int, dict[int, Any]]
    errors: dict[tuple[int, int], str]
    sheet: Sheet


def read_excel(path: Path, na_values: Iterable[str] = ()) -> ExcelTable:
    """Read the first sheet of an Excel file; `na_values` mark holes beside `MARKERS`.

    Raises:
        ValueError: naming the cell where it is no table, or saying that openpyxl is needed.
    """
    content = path.read_bytes()
    grid = _grid(path, content)
    lines = sorted(grid.values)
    if not lines:
        raise ValueError(
            f"{path}: expected column names and rows of data; the first sheet is empty. Put the "
            "table on the first sheet"
        )
    head = lines.pop(0)
    names = _names(path, head, grid.values[head])
    _check_beside(path, names, {line: grid.values[line] for line in lines})
    cells = {name: [grid.values[line].get(c) for line in lines] for name, c in names.items()}
    words = Words(
        path,
        {name: [_word(value) for value in column] for name, column in cells.items()},
        markers_of(na_values),
        lambda row: f"row {lines[row]}",
    )
    table = ExcelTable(path, content, head, names, lines, cells, words)
    _check_cells(table, grid)
    return table


def _grid(path: Path, content: bytes) -> _Grid:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise ValueError(
            f"{path}: reading Excel files needs openpyxl, which is not installed. Run pip install "
            "'plmcmc[excel]', or save the table as CSV"
        ) from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            # All of it is copied when the table is written: better to know now.
            if (bad := package.testzip()) is not None:
                raise ValueError(f"{bad!r} in it is damaged")
            sheet = Sheet(package.read(sheet_path(package)))
        _check_spread(path, sheet)
        with warnings.catch_warnings():
            # On what it would not write again; it does not write.
            warnings.simplefilter("ignore")
            # Read only: cells of other sheets, and merged ones, are then not made.
            book = load_workbook(io.BytesIO(content), data_only=True, read_only=True)
            values, errors = _values(book.worksheets[0])
        if any(c not in sheet.cells.get(row, {}) for row, own in values.items() for c in own):
            raise ValueError("it is not clear which sheet is the first")
    except _Refused:
        raise
    except (*_DAMAGE, InvalidFileException) as error:
        said = (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")
        raise ValueError(
            f"{path}: expected a complete Excel workbook; it cannot be read: {said}. Save it "
            "again as .xlsx, without a password"
        ) from None
    return _Grid(values, errors, sheet)


def _check_spread(path: Path, sheet: Sheet) -> None:
    """Refuse cells so far apart that what lies between them could not be gone through."""
    if sheet.spread > MOST_SPREAD:
        raise _Refused(
            f"{path}, cell {sheet.farthest}: expected cells next to each other; counting the "
            f"empty cells before values, the sheet has {sheet.spread:,} cells, and at most "
            f"{MOST_SPREAD:,} are allowed. Delete values far from the table, or save the table as "
            "CSV"
        )


def _values(sheet: Any) -> tuple[dict[int, dict[int, Any]], dict[tuple[int, int], str]]:
    """Return what cells hold, by row and column, and which of it are errors."""
    values, errors = {}, {}
    # What a file says of its size need not be so.
    sheet.reset_dimensions()
    for line in sheet.iter_rows():
        for cell in line:
            if cell.value is not None and _word(cell.value).strip():
                values.setdefault(cell.row, {})[cell.column] = cell.value
                if cell.data_type == "e":
                    errors[cell.row, cell.column] = cell.value
    return values, errors


def _names(path: Path, head: int, cells: Mapping[int, Any]) -> dict[str, int]:
    """Return where columns are by their names, which stand side by side."""
    for column in range(min(cells), max(cells) + 1):
        if column not in cells:
            raise ValueError(
                f"{path}, cell {letters_of(column)}{head}: expected a column name, as in the "
                "cells next to it; it is empty. Name the column, or delete anything above the "
                "table"
            )
    names = [_word(cells[column]) for column in sorted(cells)]
    check_names(path, names)
    return dict(zip(names, sorted(cells), strict=True))


def _check_beside(
    path: Path, names: Mapping[str, int], rows: Mapping[int, Mapping[int, Any]]
) -> None:
    """Refuse what stands beside the table."""
    for line, cells in rows.items():
        beside = [column for column in cells if column not in names.values()]
        if beside:
            raise ValueError(
                f"{path}, cell {letters_of(beside[0])}{line}: expected no value in a column "
                f"without a name; got {shown(cells[beside[0]])}. Name the column, or move the "
                "value to another sheet"
            )


def _check_cells(table: ExcelTable, grid: _Grid) -> None:
    """Refuse errors, formulas without a value, and merged cells: none says what it holds."""
    for reference in grid.sheet.merged:
        raise ValueError(
            f"{table.path}, cells {reference}: expected separate cells; these are merged. Unmerge "
            "them"
        )
    for name, column in table.columns.items():
        for row, hole in enumerate(table.missing(name)):
            line = table.lines[row]
            at = f"{table.path}, cell {letters_of(column)}{line}, column {shown(name)}"
            own = grid.sheet.cells.get(line, {}).get(column)
            error = grid.errors.get((line, column))
            if hole and own is not None and own.formula:
                found = "without a stored value" if error is None else f"that is {shown(error)}"
                raise ValueError(
                    f"{at}: expected a value; got a formula {found}. Let Excel calculate and save "
                    "it, or replace it with a value"
                )
            if not hole and error is not None:
                raise ValueError(
                    f"{at}: expected a value; got {shown(error)}. Correct it, "
                    f"or mark it missing with --na-values"
                )


def _word(value: Any) -> str:
    """Return a cell's value as a CSV file would have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return value.isoformat() if isinstance(value, date | time) else str(value)
