"""Workbooks that are damaged or spread far: one clear message each, and soon."""

import io
import struct
import zipfile

import openpyxl
import pytest

from plmcmc.tables import excel, read_table
from table_files import run

ROWS = 12
# Far below what going through all places of a sheet would take.
SOON_S = 20
SHEET = "xl/worksheets/sheet1.xml"


def workbook(change=lambda book: None):
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["x", "y"])
    for row in range(ROWS):
        book.active.append([row / 3, None if row % 4 == 1 else row % 3])
    change(book)
    book.save(buffer)
    return buffer.getvalue()


def damaged(name, way):
    """A workbook in which what is packed of a part, or what is said of it, is spoilt."""
    content = bytearray(workbook())
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as package:
        start = package.getinfo(name).header_offset
    size, extra = struct.unpack("<HH", content[start + 26 : start + 30])
    packed = start + 30 + size + extra
    said = content.index(name.encode(), content.index(b"PK\x01\x02")) - 46
    if way == "bytes":
        content[packed : packed + 8] = b"\xff" * 8
    elif way == "method":
        content[start + 8 : start + 10] = content[said + 10 : said + 12] = b"\x63\x00"
    else:
        content[start + 6] |= 1
        content[said + 8] |= 1
    return bytes(content)


def with_sheet(xml):
    """A workbook whose first sheet is this XML."""
    before, after = io.BytesIO(workbook()), io.BytesIO()
    with zipfile.ZipFile(before) as package, zipfile.ZipFile(after, "w") as copy:
        for name in package.namelist():
            copy.writestr(name, xml if name == SHEET else package.read(name))
    return after.getvalue()


def rows_of(*cells, encoding="UTF-8"):
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    inside = "".join(cells)
    text = f'{head}<worksheet xmlns="{space}"><sheetData>{inside}</sheetData></worksheet>'
    return text.encode(encoding)


def cell(name, value=1):
    return f'<c r="{name}"><v>{value}</v></c>'


DAMAGED = {
    "packed bytes": damaged(SHEET, "bytes"),
    "a packing that nobody knows": damaged(SHEET, "method"),
    "a password": damaged(SHEET, "password"),
    # Copied when the table is written: too late to find out.
    "packed bytes of another part": damaged("xl/theme/theme1.xml", "bytes"),
    "no cells of this row": with_sheet(rows_of(f'<row r="1">{cell("A2")}</row>')),
    "cells not in order": with_sheet(rows_of(f'<row r="1">{cell("B1")}{cell("A1")}</row>')),
    "rows not in order": with_sheet(rows_of('<row r="2"/>', '<row r="1"/>')),
    "a column that no sheet has": with_sheet(rows_of(f'<row r="1">{cell("ZZZ1")}</row>')),
    "a word that is not there": with_sheet(
        rows_of('<row r="1"><c r="A1" t="s"><v>99</v></c></row>')
    ),
    "a cell outside of rows": with_sheet(rows_of(cell("A1"))),
    "another encoding": with_sheet(rows_of(f'<row r="1">{cell("A1")}</row>', encoding="UTF-16")),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_damage_is_told(how, tmp_path, capsys):
    place = tmp_path / "data.xlsx"
    place.write_bytes(DAMAGED[how])
    assert run("impute", place, "-o", tmp_path / "out.xlsx") == 2
    said = capsys.readouterr().err
    assert f"{place}: expected a complete Excel workbook; it cannot be read: " in said
    assert "Save it again as .xlsx" in said
    assert [own.name for own in tmp_path.iterdir()] == ["data.xlsx"]


@pytest.mark.timeout(SOON_S)
def test_a_far_cell_costs_nothing(tmp_path):
    place = tmp_path / "data.xlsx"
    place.write_bytes(workbook(lambda book: book.active.cell(2**20, 2, 1)))
    table = read_table(place)
    assert (table.rows, table.lines[-1]) == (ROWS + 1, 2**20)
    place.write_bytes(workbook(lambda book: book.active.cell(2**20, 2**14, 1)))
    with pytest.raises(ValueError, match="cell XFD1048576: expected no value in a column without"):
        read_table(place)


@pytest.mark.timeout(SOON_S)
def test_merged_cells_are_never_made(tmp_path):
    """In a sheet that is not read, all of its places merged into one."""

    def merged(book):
        other = book.create_sheet()
        other.append([1])
        other.merged_cells.add("A1:XFD1048576")

    place = tmp_path / "data.xlsx"
    place.write_bytes(workbook(merged))
    assert read_table(place).rows == ROWS


def test_cells_too_far_apart_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(excel, "MOST_SPREAD", 3 * 2**14)
    lines = [f'<row r="{row}">{cell(f"A{row}")}{cell(f"XFD{row}")}</row>' for row in (1, 2, 3, 4)]
    place = tmp_path / "data.xlsx"
    place.write_bytes(with_sheet(rows_of(*lines)))
    with pytest.raises(
        ValueError, match=r"cell XFD1: .* 65,536 cells, and at most 49,152 are allowed"
    ):
        read_table(place)
