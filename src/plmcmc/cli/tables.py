"""Tables as files: read as they are written, and written with nothing but their holes changed."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

MARKERS = ("", "NA", "N/A", "NaN", "nan", "null", "None", "?")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
BOOLEANS = {"true": True, "t": True, "yes": True, "y": True, "1": True}
BOOLEANS |= {"false": False, "f": False, "no": False, "n": False, "0": False}
# What a column of Parquet must be stored as to hold a kind; other kinds fit anywhere.
STORED: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "continuous": (pa.types.is_floating,),
    "integer": (pa.types.is_integer, pa.types.is_floating),
    "boolean": (pa.types.is_boolean,),
}


class Kinds(NamedTuple):
    """What the columns to work with are.

    Attributes:
        kinds: by name, in the order of the model.
        levels: by name, where they are known beforehand.
    """

    kinds: Mapping[str, str]
    levels: Mapping[str, Sequence[Any] | None]


@dataclass(frozen=True)
class TextTable:
    """A CSV or TSV file, cell by cell as it was written, quotes included.

    Attributes:
        path: where it was read.
        separator: between cells.
        head: all up to the first row of data.
        cells: columns of cells, by name.
        ends: of the rows: line ends, and blank lines after them.
        markers: words that mark a hole.
    """

    path: Path
    separator: str
    head: str
    cells: dict[str, list[str]]
    ends: list[str]
    markers: frozenset[str]

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.cells)

    @property
    def rows(self) -> int:
        """How many rows of data there are."""
        return len(self.ends)

    def words(self, name: str) -> list[str | None]:
        """Return a column's cells without their quotes, None at holes."""
        words = map(_unquoted, self.cells[name])
        return [None if word.strip() in self.markers else word for word in words]

    def holes(self, name: str) -> int:
        """Return how many cells of a column are missing."""
        return sum(word is None for word in self.words(name))

    def line(self, row: int) -> int:
        """Return the line of the file that a row begins at, from 1."""
        return 1 + len(re.findall(r"\r\n|\r|\n", self._text(self.cells, row)))

    def frame(self, known: Kinds) -> pd.DataFrame:
        """Return these columns with their values.

        Raises:
            ValueError: naming line, column and what came, where a word is not of its kind.
        """
        columns = {}
        for name, kind in known.kinds.items():
            values = self._values(name, kind, known.levels.get(name))
            numeric = kind in ("continuous", "integer")
            columns[name] = pd.Series(values, dtype=np.float64 if numeric else object)
        return pd.DataFrame(columns)

    def filled(self, known: Kinds, frame: pd.DataFrame) -> bytes:
        """Return the file's text with values of a frame at the holes of these columns."""
        cells = dict(self.cells)
        for name, kind in known.kinds.items():
            words = self.words(name)
            if None in words:
                values = self._values(name, kind, known.levels.get(name))
                # A level is written as this column writes it: yes, not True.
                spelled = dict(zip(reversed(values), reversed(cells[name]), strict=True))
                new = frame[name].tolist()
                cells[name] = [
                    self._cell(value, kind, spelled) if word is None else cell
                    for value, word, cell in zip(new, words, cells[name], strict=True)
                ]
        return self._text(cells).encode()

    def _values(self, name: str, kind: str, levels: Sequence[Any] | None) -> list[Any]:
        read = _reader(kind, levels)
        values = []
        for row, word in enumerate(self.words(name)):
            try:
                values.append(None if word is None else read(word))
            except ValueError as error:
                raise ValueError(
                    f"{self.path}, line {self.line(row)}, column {name!r}: expected {error}; got "
                    f"{word!r}. Correct it, mark it missing with --na-values, or say with --types "
                    f"what the column is"
                ) from None
        return values

    def _cell(self, value: Any, kind: str, spelled: Mapping[Any, str]) -> str:
        if kind == "integer":
            return str(round(value))
        if kind == "continuous":
            return repr(float(value))
        if value in spelled:
            return spelled[value]
        return _quoted(str(value).removesuffix(".0" * isinstance(value, float)), self.separator)

    def _text(self, cells: Mapping[str, list[str]], stop: int | None = None) -> str:
        columns = [column[:stop] for column in cells.values()]
        lines = [
            self.separator.join(row) + end
            for row, end in zip(zip(*columns, strict=True), self.ends[:stop], strict=True)
        ]
        return self.head + "".join(lines)


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file.

    Attributes:
        path: where it was read.
        table: its content.
        markers: words that mark a hole in columns of text, beside nulls.
    """

    path: Path
    table: pa.Table
    markers: frozenset[str]

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return self.table.column_names

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.num_rows

    def series(self, name: str) -> pd.Series:
        """Return a column, whole numbers and booleans nullable."""
        column = self.table.column(name)
        values = column.to_pandas(types_mapper=_NULLABLE.get)
        if self.markers and column.type in (pa.string(), pa.large_string()):
            values = values.mask(values.isin(self.markers))
        return values

    def holes(self, name: str) -> int:
        """Return how many cells of a column are missing."""
        return int(self.series(name).isna().sum())

    def frame(self, known: Kinds) -> pd.DataFrame:
        """Return these columns.

        Raises:
            ValueError: naming a column whose type cannot hold its kind.
        """
        for name, kind in known.kinds.items():
            stored = self.table.schema.field(name).type
            if kind in STORED and not any(fits(stored) for fits in STORED[kind]):
                raise ValueError(
                    f"{self.path}, column {name!r}: expected {kind} values; the file stores "
                    f"{stored}. Convert the column, or say with --types what it is"
                )
        return pd.DataFrame({name: self.series(name) for name in known.kinds})

    def filled(self, known: Kinds, frame: pd.DataFrame) -> bytes:
        """Return the file with columns of a frame in place of those that had holes."""
        table = self.table
        for name in known.kinds:
            if self.holes(name):
                place = table.column_names.index(name)
                field = table.schema.field(place)
                table = table.set_column(place, field, _stored(frame[name].array, field.type))
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        return buffer.getvalue()


Table = TextTable | ParquetTable
_NULLABLE = {
    getattr(pa, name.lower())(): getattr(pd, name + "Dtype")()
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
} | {pa.bool_(): pd.BooleanDtype()}


def suffix_of(path: Path) -> str:
    """Return the suffix that says what a file is: `.csv`, `.csv.gz`, `.tsv`, ..."""
    found = next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)
    if found is None:
        raise ValueError(f"{path}: expected a file named {', '.join('*' + s for s in SUFFIXES)}")
    return path.name[-len(found) :]


def form_of(path: Path) -> str:
    """Return `.csv`, `.tsv` or `.parquet`, compressed or not."""
    return suffix_of(path).lower().removesuffix(".gz")


def read_table(path: Path, na_values: Iterable[str] = ()) -> Table:
    """Read a table.

    Raises:
        ValueError: saying what is wrong with it, and where.
        OSError: if there is no such file.
    """
    form = form_of(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file with a table, and there is none")
    if form == ".parquet":
        table = _read_parquet(path, frozenset(na_values))
    else:
        table = _read_text(path, SEPARATORS[form], frozenset((*MARKERS, *na_values)))
    if table.rows == 0:
        raise ValueError(f"{path}: expected rows of data; there are names of columns only")
    return table


def write_files(files: Iterable[tuple[Path, bytes]]) -> None:
    """Write files, each whole or not at all, and none before all are ready to take their places."""
    ready = list(files)
    staged = [place.with_name(f".{place.name}.{os.getpid()}.part") for place, _ in ready]
    try:
        for (place, content), temporary in zip(ready, staged, strict=True):
            place.parent.mkdir(parents=True, exist_ok=True)
            packed = suffix_of(place).lower().endswith(".gz")
            temporary.write_bytes(gzip.compress(content, mtime=0) if packed else content)
        for (place, _), temporary in zip(ready, staged, strict=True):
            os.replace(temporary, place)
    finally:
        for temporary in staged:
            # What has taken its place is not there; where no directory could be made, nothing is.
            with suppress(OSError):
                temporary.unlink()


def _read_parquet(path: Path, markers: frozenset[str]) -> ParquetTable:
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: expected a table")
    try:
        # Not read_table, which would make columns of the names of directories.
        table = pq.ParquetFile(path).read()
    except pa.ArrowException as error:
        raise ValueError(f"{path}: expected a Parquet file, which this is not: {error}") from None
    _check_names(path, table.column_names)
    return ParquetTable(path, table, markers)


def _read_text(path: Path, separator: str, markers: frozenset[str]) -> TextTable:
    text = _decoded(path)
    if not text.strip("\ufeff\r\n \t"):
        raise ValueError(f"{path} is empty: expected names of columns, and rows of data")
    lead = re.match(r"\ufeff?[\r\n]*", text)
    start = lead.end() if lead else 0
    lines = _split(path, text, separator, start)
    names = [_unquoted(cell) for cell in lines[0].cells]
    _check_names(path, names)
    for line in lines[1:]:
        if len(line.cells) != len(names):
            raise ValueError(
                f"{path}, line {_line(text, line.start)}: expected {len(names)} cells, as in the "
                f"first line; got {len(line.cells)}. Quote cells that hold a {separator!r}"
            )
    head = text[: lines[1].start] if len(lines) > 1 else text
    columns = zip(*(line.cells for line in lines[1:]), strict=True)
    cells = {name: list(column) for name, column in zip(names, columns, strict=False)}
    return TextTable(path, separator, head, cells, [line.end for line in lines[1:]], markers)


def _decoded(path: Path) -> str:
    content = path.read_bytes()
    try:
        if path.name.lower().endswith(".gz"):
            content = gzip.decompress(content) if content else content
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: expected UTF-8 text; convert the file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: expected a file packed by gzip: {error}") from None


class _Line(NamedTuple):
    cells: list[str]
    end: str
    start: int


def _split(path: Path, text: str, separator: str, start: int) -> list[_Line]:
    """Cut text into cells that keep their quotes: csv and pandas would drop them for good."""
    plain = f"[^{separator}\r\n]"
    cell = re.compile(
        rf'("[^"]*(?:""[^"]*)*"(?:(?!"){plain}+)?)?({plain}*)({separator}|[\r\n]+|\Z)'
    )
    lines, cells = [], []
    for found in cell.finditer(text, start):
        quoted, bare, end = found.groups(default="")
        word = quoted + bare
        if not cells:
            start = found.start()
            if not word and not end:
                break
        if bare.startswith('"'):
            raise ValueError(
                f"{path}, line {_line(text, found.start())}: expected a closing quote; there is "
                f"none. Close it, or double it if it is part of the text"
            )
        cells.append(word)
        if end != separator:
            lines.append(_Line(cells, end, start))
            cells = []
    return lines


def _line(text: str, position: int) -> int:
    return len(re.findall(r"\r\n|\r|\n", text[:position])) + 1


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"{path}: expected columns with names of their own; these occur twice: {twice}. Rename "
            f"them"
        )


def _unquoted(cell: str) -> str:
    if not cell.startswith('"'):
        return cell
    inside, _, after = cell[1:].rpartition('"')
    return inside.replace('""', '"') + after


def _quoted(word: str, separator: str) -> str:
    if any(mark in word for mark in (separator, '"', "\r", "\n")):
        return '"' + word.replace('"', '""') + '"'
    return word


def _reader(kind: str, levels: Sequence[Any] | None) -> Callable[[str], Any]:
    if kind == "boolean":
        return _boolean
    if kind in ("continuous", "integer") or (levels and not isinstance(levels[0], str)):
        return _number
    return str


def _number(word: str) -> float:
    if not NUMBER.fullmatch(word.strip()):
        raise ValueError("a number")
    value = float(word)
    if math.isinf(value):
        raise ValueError("a finite number")
    return value


def _boolean(word: str) -> bool:
    try:
        return BOOLEANS[word.strip().lower()]
    except KeyError:
        raise ValueError(f"one of {', '.join(BOOLEANS)}") from None


def _stored(values: Any, kind: Any) -> Any:
    found = pa.array(values, from_pandas=True)
    if pa.types.is_dictionary(kind):
        # No cast leads from one width of codes to another.
        codes = found.indices.cast(kind.index_type)
        words = found.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(codes, words, ordered=kind.ordered)
    return found.cast(kind)
