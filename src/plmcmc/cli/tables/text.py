"""CSV and TSV files: read as they are written, and written with nothing but their holes changed."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plmcmc.cli.tables.kinds import NUMBER, Flag, Kinds, check_names, numbers_of

MARKERS = ("", "NA", "N/A", "NaN", "nan", "null", "None", "?")
SEPARATING = (";", "\t", "|", ",")
NEWLINE = re.compile(r"\r\n|\r|\n")
BOOLEANS = {"true": True, "t": True, "yes": True, "y": True, "1": True}
BOOLEANS |= {"false": False, "f": False, "no": False, "n": False, "0": False}
Reader = Callable[[str], Any]


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

    # Columns are asked for again and again: to decide, to count holes, to learn, to write.
    @cached_property
    def words(self) -> Callable[[str], tuple[str | None, ...]]:
        """What gives a column's cells by its name, without their quotes, None at holes."""
        return cache(self._without_quotes)

    def holes(self, name: str) -> int:
        """Return how many cells of a column are missing."""
        return self.words(name).count(None)

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return which cells of a column are missing."""
        return np.array([word is None for word in self.words(name)])

    def place(self, row: int) -> str:
        """Return the line of the file that a row begins at, in words."""
        return f"line {1 + len(re.findall(NEWLINE, self.head + self._text(self.cells, row)))}"

    def frame(self, known: Kinds) -> pd.DataFrame:
        """Return these columns with their values.

        Raises:
            ValueError: naming line, column and what came, where a word is not of its kind.
        """
        columns = {}
        for name, kind in known.kinds.items():
            values = self._values(name, _reader(kind, known.levels.get(name)))
            numeric = kind in ("continuous", "integer")
            columns[name] = pd.Series(values, dtype=np.float64 if numeric else object)
        return pd.DataFrame(columns)

    def filled(self, known: Kinds, frame: pd.DataFrame, flag: Flag | None = None) -> bytes:
        """Return the file's text with values of a frame at the holes of these columns.

        Args:
            known: the columns.
            frame: their values.
            flag: a last column to add.
        """
        head, cells = self.head, dict(self.cells)
        for name, kind in known.kinds.items():
            words = self.words(name)
            if None in words:
                write = self._writer(name, kind, known.levels.get(name))
                new = frame[name].tolist()
                cells[name] = [
                    write(value) if word is None else cell
                    for value, word, cell in zip(new, words, cells[name], strict=True)
                ]
        if flag is not None:
            line = head.rstrip("\r\n")
            head = line + self.separator + _quoted(flag.name, self.separator) + head[len(line) :]
            cells[flag.name] = ["true" if settled else "false" for settled in flag.rows]
        return (head + self._text(cells)).encode()

    @cached_property
    def _values(self) -> Callable[[str, Reader], tuple[Any, ...]]:
        return cache(self._parsed)

    def _without_quotes(self, name: str) -> tuple[str | None, ...]:
        words = map(_unquoted, self.cells[name])
        return tuple(None if self._marks(word.strip()) else word for word in words)

    def _marks(self, word: str) -> bool:
        """Whether a word marks a hole; -999 also where it is written -999.0."""
        if word in self.markers:
            return True
        numbers = self._numbers
        return bool(numbers) and NUMBER.fullmatch(word) is not None and float(word) in numbers

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return numbers_of(self.markers)

    def _parsed(self, name: str, read: Reader) -> tuple[Any, ...]:
        values = []
        for row, word in enumerate(self.words(name)):
            try:
                values.append(None if word is None else read(word))
            except ValueError as error:
                raise ValueError(
                    f"{self.path}, {self.place(row)}, column {name!r}: expected {error}; got "
                    f"{word!r}. Correct it, mark it missing with --na-values, or say with --types "
                    f"what the column is, when fitting"
                ) from None
        return tuple(values)

    def _writer(self, name: str, kind: str, levels: Sequence[Any] | None) -> Callable[[Any], str]:
        """Return what writes a value as its column does: yes, not True; 3.0, not 3."""
        if kind == "continuous":
            return lambda value: repr(float(value))
        if kind == "integer":
            seen = [word for word in self.words(name) if word is not None]
            end = ".0" if seen and all("." in word for word in seen) else ""
            return lambda value: f"{round(value)}{end}"
        values = self._values(name, _reader(kind, levels))
        spelled = dict(zip(reversed(values), reversed(self.cells[name]), strict=True))

        def write(value: Any) -> str:
            if value in spelled:
                return spelled[value]
            return _quoted(str(value).removesuffix(".0" * isinstance(value, float)), self.separator)

        return write

    def _text(self, cells: Mapping[str, list[str]], stop: int | None = None) -> str:
        columns = [column[:stop] for column in cells.values()]
        lines = [
            self.separator.join(row) + end
            for row, end in zip(zip(*columns, strict=True), self.ends[:stop], strict=True)
        ]
        return "".join(lines)


def read_text(path: Path, separator: str, na_values: Iterable[str] = ()) -> TextTable:
    """Read a file of text; `na_values` mark holes beside `MARKERS`.

    Raises:
        ValueError: naming the line where it is no table.
    """
    text = _decoded(path)
    if not text.strip("\ufeff\r\n \t"):
        raise ValueError(f"{path} is empty: expected names of columns, and rows of data")
    lead = re.match(r"\ufeff?[\r\n]*", text)
    start = lead.end() if lead else 0
    lines = _split(path, text, separator, start)
    names = [_unquoted(cell) for cell in lines[0].cells]
    check_names(path, names)
    _check_separated(path, names, separator)
    for line in lines[1:]:
        if len(line.cells) != len(names):
            raise ValueError(
                f"{path}, line {_line(text, line.start)}: expected {len(names)} cells, as in the "
                f"first line; got {len(line.cells)}. Quote cells that hold a {separator!r}"
            )
    head = text[: lines[1].start] if len(lines) > 1 else text
    columns = zip(*(line.cells for line in lines[1:]), strict=True)
    cells = {name: list(column) for name, column in zip(names, columns, strict=False)}
    ends = [line.end for line in lines[1:]]
    markers = frozenset((*MARKERS, *na_values))
    return TextTable(path, separator, head, cells, ends, markers)


def _check_separated(path: Path, names: Sequence[str], separator: str) -> None:
    """Refuse one column whose name holds what others separate columns by."""
    other = next((mark for mark in SEPARATING if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise ValueError(
            f"{path}: expected columns separated by {separator!r}; the first line is one column, "
            f"{names[0]!r}, and looks separated by {other!r}. Write the file with {separator!r}, "
            f"and numbers with a decimal point"
        )


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
    return len(re.findall(NEWLINE, text[:position])) + 1


def _unquoted(cell: str) -> str:
    if not cell.startswith('"'):
        return cell
    inside, _, after = cell[1:].rpartition('"')
    return inside.replace('""', '"') + after


def _quoted(word: str, separator: str) -> str:
    if any(mark in word for mark in (separator, '"', "\r", "\n")):
        return '"' + word.replace('"', '""') + '"'
    return word


def _reader(kind: str, levels: Sequence[Any] | None) -> Reader:
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
