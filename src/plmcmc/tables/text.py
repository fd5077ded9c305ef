"""CSV and TSV files: read as they are written, and written with nothing but their holes changed."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from plmcmc.storage.strict_json import shown
from plmcmc.tables.cells import Worded, Words, markers_of, reader_of
from plmcmc.tables.kinds import Flag, Kinds, check_names

SEPARATING = (";", "\t", "|", ",")
NEWLINE = re.compile(r"\r\n|\r|\n")
GZIP = b"\x1f\x8b"
# How files begin that are no text, what they are, and what to do.
NO_TEXT = {
    GZIP: ("compressed with gzip", "Name it *.gz"),
    b"PK\x03\x04": (
        "a zip archive, as Excel workbooks are",
        "Name it *.xlsx if it is a workbook; unpack it otherwise",
    ),
    b"PAR1\x15": ("Parquet", "Name it *.parquet"),
    b"\xff\xfe": ("UTF-16", "Save it as UTF-8"),
    b"\xfe\xff": ("UTF-16", "Save it as UTF-8"),
}


@dataclass(frozen=True)
class TextTable(Worded):
    """A CSV or TSV file, cell by cell as it was written, quotes included.

    Attributes:
        path: where it was read.
        separator: between cells.
        head: all up to the first row of data.
        cells: columns of cells, by name.
        ends: of the rows: line ends, and blank lines after them.
        words: the cells without their quotes.
    """

    path: Path
    separator: str
    head: str
    cells: dict[str, list[str]]
    ends: list[str]
    words: Words

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.cells)

    @property
    def rows(self) -> int:
        """How many rows of data there are."""
        return len(self.ends)

    def filled(self, known: Kinds, frame: pd.DataFrame, flag: Flag | None = None) -> bytes:
        """Return the file's text with values of a frame at the holes of these columns.

        Args:
            known: the columns.
            frame: their values.
            flag: a last column to add.
        """
        head, cells = self.head, dict(self.cells)
        for name, kind in known.kinds.items():
            words = self.words.of(name)
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
        return (head + _text(self.separator, cells, self.ends)).encode()

    def _writer(self, name: str, kind: str, levels: Sequence[Any] | None) -> Callable[[Any], str]:
        """Return what writes a value as its column does: yes, not True; 3.0, not 3."""
        if kind == "continuous":
            return lambda value: repr(float(value))
        if kind == "integer":
            seen = [word for word in self.words.of(name) if word is not None]
            end = ".0" if seen and all("." in word for word in seen) else ""
            return lambda value: f"{round(value)}{end}"
        values = self.words.values(name, reader_of(kind, levels))
        spelled = dict(zip(reversed(values), reversed(self.cells[name]), strict=True))

        def write(value: Any) -> str:
            if value in spelled:
                return spelled[value]
            return _quoted(str(value).removesuffix(".0" * isinstance(value, float)), self.separator)

        return write


def read_text(path: Path, separator: str, na_values: Iterable[str] = ()) -> TextTable:
    """Read a file of text; `na_values` mark holes beside `MARKERS`.

    Raises:
        ValueError: naming the line where it is no table.
    """
    return table_of_text(path, _decoded(path), separator, na_values)


def table_of_text(
    path: Path, text: str, separator: str, na_values: Iterable[str] = ()
) -> TextTable:
    """Return the table that a file's text is, or some of its lines are."""
    if not text.strip("\ufeff\r\n \t"):
        raise empty(path)
    lines = _split(path, text, separator, _start(text))
    names = _names(path, lines[0].cells, separator)
    for line in lines[1:]:
        if len(line.cells) != len(names):
            raise ValueError(
                f"{path}, line {_line(text[: line.start])}: expected {len(names)} cells, as in the "
                f"first line; got {len(line.cells)}. Quote cells that hold a {separator!r}"
            )
    head = text[: lines[1].start] if len(lines) > 1 else text
    columns = zip(*(line.cells for line in lines[1:]), strict=True)
    cells = {name: list(column) for name, column in zip(names, columns, strict=False)}
    ends = [line.end for line in lines[1:]]

    def place(row: int) -> str:
        before = head + _text(separator, cells, ends[:row])
        return f"line {_line(before)}"

    plain = {name: [_unquoted(cell) for cell in column] for name, column in cells.items()}
    words = Words(path, plain, markers_of(na_values), place)
    return TextTable(path, separator, head, cells, ends, words)


def empty(path: Path) -> ValueError:
    """Return what is wrong with a file that has not even names of columns."""
    return ValueError(
        f"{path}: expected column names and rows of data; the file is empty. Choose "
        f"another file, or write it again"
    )


def names_of_text(path: Path, text: str, separator: str) -> list[str]:
    """Return the names of the columns, of a file's text or of its first line."""
    return _names(path, _split(path, text, separator, _start(text))[0].cells, separator)


def _start(text: str) -> int:
    """Return where the first line begins: after a mark of its order of bytes, and blank lines."""
    lead = re.match(r"\ufeff?[\r\n]*", text)
    return lead.end() if lead else 0


def _names(path: Path, cells: Sequence[str], separator: str) -> list[str]:
    """Return the names in the cells of a first line; refuse what are none."""
    names = [_unquoted(cell) for cell in cells]
    check_names(path, names)
    _check_separated(path, names, separator)
    return names


def _text(separator: str, cells: Mapping[str, list[str]], ends: Sequence[str]) -> str:
    """Return the text of as many rows as there are ends."""
    columns = [column[: len(ends)] for column in cells.values()]
    rows = zip(zip(*columns, strict=True), ends, strict=True)
    return "".join(separator.join(row) + end for row, end in rows)


def _check_separated(path: Path, names: Sequence[str], separator: str) -> None:
    """Refuse one column whose name holds what others separate columns by, and a note to Excel."""
    if names[0].lower().startswith("sep="):
        raise ValueError(
            f"{path}, line 1: expected column names; got {shown(names[0])}, a line that tells "
            "Excel the separator. Delete the line"
        )
    other = next((mark for mark in SEPARATING if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise ValueError(
            f"{path}: expected columns separated by {separator!r}; the first line is a single "
            f"column, {shown(names[0])}, and seems to be separated by {other!r}. Write the file "
            f"with {separator!r}, and numbers with a decimal point"
        )


def _decoded(path: Path) -> str:
    content = _unpacked(path)
    check_text(path, content)
    if b"\0" in content:
        line = _line(content.partition(b"\0")[0].decode(errors="replace"))
        raise ValueError(
            f"{path}, line {line}: expected UTF-8 text; got a zero byte, as found in UTF-16 and "
            "binary files. Save it as UTF-8"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = _line(content[: error.start].decode())
        raise ValueError(
            f"{path}, line {line}: expected UTF-8 text; got the byte "
            f"0x{content[error.start]:02x}, as found in other encodings. Save it as UTF-8"
        ) from None


def check_text(path: Path, content: bytes) -> None:
    """Refuse what begins as other files do, by its first bytes."""
    for start, (found, advice) in NO_TEXT.items():
        if content.startswith(start):
            if start == GZIP and path.name.lower().endswith(".gz"):
                found, advice = "compressed with gzip twice", "Decompress it once"
            raise ValueError(f"{path}: expected UTF-8 text; the file is {found}. {advice}")


def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    if not path.name.lower().endswith(".gz") or not content:
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path}: expected a complete gzip file: {error}. Compress it again, or remove .gz "
            "from its name if it is not compressed"
        ) from None


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
                f"{path}, line {_line(text[: found.start()])}: expected a closing quote; there is "
                f"none. Close it, or double it if it is part of the text"
            )
        cells.append(word)
        if end != separator:
            lines.append(_Line(cells, end, start))
            cells = []
    return lines


def cells_of(record: str, separator: str) -> int | None:
    """Return how many cells a record has; None if it ends within quotes."""
    try:
        return len(_split(Path(), record, separator, 0)[0].cells)
    except ValueError:
        return None


def _line(before: str) -> int:
    """Return the number of the line that comes after this much text."""
    return len(re.findall(NEWLINE, before)) + 1


def _unquoted(cell: str) -> str:
    if not cell.startswith('"'):
        return cell
    inside, _, after = cell[1:].rpartition('"')
    return inside.replace('""', '"') + after


def _quoted(word: str, separator: str) -> str:
    if any(mark in word for mark in (separator, '"', "\r", "\n")):
        return '"' + word.replace('"', '""') + '"'
    return word
