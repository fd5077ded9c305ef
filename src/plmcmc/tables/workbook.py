"""An Excel file's first sheet as it is stored: some cells are replaced, and nothing else changes.

openpyxl could write workbooks, but rounds every number to 16 digits, of which some floats need 17,
and loses what it does not know. So the sheet's XML is cut at the cells to change.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape

RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
# XML has no control characters but tabs and ends of lines; Excel writes others so.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
# What Excel has, and no sheet more.
MOST_ROWS, MOST_COLUMNS = 2**20, 2**14


class Cell(NamedTuple):
    """Where a cell stands in the XML.

    Attributes:
        start: of its first byte.
        stop: after its last.
        style: number of its style, as text; None if it has none.
        formula: whether it has one.
    """

    start: int
    stop: int
    style: str | None
    formula: bool


class Sheet:
    """The cells of a sheet's XML, by row and column from 1, and which cells are merged.

    Args:
        content: the XML.

    Raises:
        ValueError: if cells are not where they say, or not in order; Excel refuses that, too.
    """

    def __init__(self, content: bytes) -> None:
        if b"\0" in content[:4]:
            raise ValueError("the sheet is encoded in UTF-16, not in UTF-8")
        self.content = content
        self.cells: dict[int, dict[int, Cell]] = {}
        self.ends: dict[int, int] = {}
        self.merged: list[str] = []
        self.prefix = ""
        self._row = self._column = 0
        self._begun: tuple[int, str | None, bool] | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.XmlDeclHandler = self._declared
        self._parser.Parse(content, True)

    @property
    def spread(self) -> int:
        """How many cells there are, with all the empty places before them in their rows."""
        return sum(max(own, default=0) for own in self.cells.values())

    @property
    def farthest(self) -> str:
        """The cell that has the most places before it in its row."""
        row = max(self.cells, key=lambda row: max(self.cells[row], default=0))
        return f"{letters_of(max(self.cells[row]))}{row}"

    def replaced(self, values: Mapping[tuple[int, int], Any]) -> bytes:
        """Return the XML with these values in their cells; a row must be there, a cell need not."""
        edits = []
        for (row, column), value in sorted(values.items()):
            own = self.cells[row]
            old = own.get(column)
            if old is None:
                columns = sorted(own)
                after = bisect_right(columns, column)
                at = own[columns[after]].start if after < len(columns) else self.ends[row]
                old = Cell(at, at, None, formula=False)
            name = f"{letters_of(column)}{row}"
            edits.append((old.start, old.stop, self._written(name, old.style, value)))
        parts, last = [], 0
        for start, stop, new in edits:
            parts += [self.content[last:start], new]
            last = stop
        return b"".join([*parts, self.content[last:]])

    def _written(self, name: str, style: str | None, value: Any) -> bytes:
        own = self.prefix
        if isinstance(value, str):
            kind = ' t="inlineStr"'
            text = CONTROL.sub(lambda found: f"_x{ord(found[0]):04X}_", escape(value))
            inside = f'<{own}is><{own}t xml:space="preserve">{text}</{own}t></{own}is>'
        else:
            kind = ' t="b"' if isinstance(value, bool) else ""
            inside = f"<{own}v>{int(value) if isinstance(value, bool) else value!r}</{own}v>"
        styled = "" if style is None else f' s="{style}"'
        return f'<{own}c r="{name}"{styled}{kind}>{inside}</{own}c>'.encode()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        prefix, _, tag = name.rpartition(":")
        if tag == "row":
            self.prefix = f"{prefix}:" if prefix else ""
            last, self._row = self._row, int(attributes.get("r", self._row + 1))
            if not last < self._row <= MOST_ROWS:
                raise ValueError(f"row {self._row} comes after row {last}")
            self._column = 0
            self.cells[self._row] = {}
        elif tag == "c":
            last, self._column = self._column, self._placed(attributes.get("r"))
            if not last < self._column <= MOST_COLUMNS:
                raise ValueError(f"cell {attributes.get('r')} is out of place")
            self._begun = (self._parser.CurrentByteIndex, attributes.get("s"), False)
        elif tag == "f" and self._begun is not None:
            self._begun = (*self._begun[:2], True)
        elif tag == "mergeCell":
            self.merged.append(attributes.get("ref", ""))

    def _placed(self, reference: str | None) -> int:
        """Return the column of a cell, which may have no name."""
        if reference is None:
            return self._column + 1
        named = REFERENCE.fullmatch(reference)
        if named is None or int(named[2]) != self._row:
            raise ValueError(f"cell {reference!r} is in row {self._row}")
        return column_of(named[1])

    def _declared(self, version: str, encoding: str | None, standalone: int) -> None:
        """Refuse other encodings: the XML is cut, and cells are written into it, as UTF-8."""
        if (encoding or "utf-8").lower() not in ("utf-8", "us-ascii"):
            raise ValueError(f"the sheet is encoded in {encoding}, not in UTF-8")

    def _end(self, name: str) -> None:
        tag, at = name.rpartition(":")[2], self._parser.CurrentByteIndex
        if tag == "c" and self._begun is not None:
            start, style, formula = self._begun
            # Of a cell without content expat is past its end already.
            closes = self.content.startswith(f"</{name}".encode(), at)
            stop = self.content.index(b">", at) + 1 if closes else at
            self.cells[self._row][self._column] = Cell(start, stop, style, formula)
            self._begun = None
        elif tag == "row":
            self.ends[self._row] = at


def letters_of(column: int) -> str:
    """Return the letters that name a column: 1 is A, 27 is AA."""
    letters = ""
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def column_of(letters: str) -> int:
    """Return the number of a column that has these letters."""
    found = 0
    for letter in letters:
        found = 26 * found + ord(letter) - ord("A") + 1
    return found


def sheet_path(package: zipfile.ZipFile) -> str:
    """Return where in a package its first worksheet is."""
    root = next(place for kind, place in _related(package, "").values() if kind == "officeDocument")
    related = _related(package, root)
    for sheet in ElementTree.fromstring(package.read(root)).iter():
        kind, place = related.get(sheet.get(RELATION, ""), ("", ""))
        if sheet.tag.endswith("}sheet") and kind == "worksheet":
            return place
    raise KeyError("worksheet")


def repacked(package: zipfile.ZipFile, path: str, content: bytes) -> bytes:
    """Return a package with one of its files replaced, all else and the dates as they are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as copy:
        for entry in package.infolist():
            own = content if entry.filename == path else package.read(entry)
            copy.writestr(entry, own, compress_type=entry.compress_type)
    return buffer.getvalue()


def _related(package: zipfile.ZipFile, path: str) -> dict[str, tuple[str, str]]:
    """Return what a part refers to, by identifier: the kind of it, and its path."""
    folder, name = posixpath.split(path)
    found = ElementTree.fromstring(package.read(posixpath.join(folder, "_rels", f"{name}.rels")))
    return {
        own.get("Id", ""): (
            own.get("Type", "").rpartition("/")[2],
            posixpath.normpath(posixpath.join("/", folder, own.get("Target", ""))).lstrip("/"),
        )
        for own in found
    }
