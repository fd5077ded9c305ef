"""The records of a CSV or TSV file one after the other: the file may be larger than memory."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from plmcmc.tables.text import NEWLINE, cells_of, check_text

# Characters of a record, at most: a quote that is never closed would take in the whole file.
LONGEST = 2**20


class Record(NamedTuple):
    """A row as it is written, its end included.

    Attributes:
        line: of the file that it begins at.
        text: of one line, or of more where quotes hold line ends.
        cells: how many there are.
    """

    line: int
    text: str
    cells: int


def records(path: Path, separator: str) -> Iterator[Record]:
    """Yield the names of the columns, then the rows; blank lines are left out.

    Raises:
        ValueError: naming the line where it is no table.
    """
    _check_text(path)
    number = 1
    with _opened(path) as file:
        try:
            while line := file.readline():
                text, cells = _closed(path, separator, number, line, file)
                if text.strip("\ufeff\r\n"):
                    yield Record(number, text, cells)
                number += len(NEWLINE.findall(text))
        except (UnicodeDecodeError, EOFError, OSError) as error:
            raise ValueError(
                f"{path}, after line {number - 1}: expected UTF-8 text, complete if compressed; "
                f"the system says: {error}. Save it as UTF-8, or compress it again"
            ) from None


def _opened(path: Path) -> TextIO:
    # Line ends stay as they are.
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _check_text(path: Path) -> None:
    if path.name.lower().endswith(".gz"):
        return
    with path.open("rb") as file:
        check_text(path, file.read(8))


def _closed(path: Path, separator: str, number: int, line: str, file: TextIO) -> tuple[str, int]:
    """Return the record that a line begins, with more lines while a quote is open; count cells."""
    if '"' not in line:
        return line, line.count(separator) + 1
    while (cells := cells_of(line, separator)) is None:
        more = file.readline()
        if not more or len(line) > LONGEST:
            raise ValueError(
                f"{path}, line {number}: expected a closing quote; there is none. Close it, or "
                f"double it if it is part of the text"
            )
        line += more
    return line, cells
