"""Workbooks: holes of the first sheet are filled, and not a byte of anything else changes."""

import io
import re
import zipfile
from dataclasses import replace

import numpy as np
import openpyxl
import pytest
from openpyxl.styles import Font

from plmcmc.imputation import EFFORTS
from plmcmc.imputation.convergence import LEAST_STATES
from plmcmc.tables.workbook import Sheet, column_of, letters_of
from table_files import run
from toy_tables import LEAST

# Seventeen digits: openpyxl would write sixteen, and another number.
LONG = 0.1 + 0.2
ROWS = 24


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A workbook with all that may go wrong: formats, a formula, a second sheet, a gap."""
    own, place = openpyxl.Workbook(), tmp_path_factory.mktemp("book") / "data.xlsx"
    sheet = own.active
    sheet.append(["size", "count", "colour", "member"])
    for row in range(ROWS):
        size = None if row % 5 == 2 else row / 7 + LONG
        colour = None if row % 6 == 1 else ("red", 'a <b> & "c"')[row % 2]
        sheet.append([size, row % 4, colour, None if row == 3 else row % 2 == 0])
    sheet["A4"].font = Font(bold=True)
    own.create_sheet("other").append(["mine", "=1+1"])
    own.save(place)
    return place


@pytest.fixture(scope="module")
def model(book):
    """A model of it, with states enough to tell what has converged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "fast", replace(LEAST, states=LEAST_STATES))
        assert run("fit", book, "-o", book.with_name("model"), "--effort", "fast") == 0
    return book.with_name("model")


def parts(place):
    with zipfile.ZipFile(place) as package:
        return {name: package.read(name) for name in package.namelist()}


def values(place):
    return [[cell.value for cell in row] for row in openpyxl.load_workbook(place).active]


@pytest.fixture
def filled(book, model, tmp_path):
    def fill(name="out.xlsx", *more):
        assert run("impute", book, "-o", tmp_path / name, "--model", model, *more) == 0
        return tmp_path / name

    return fill


def test_only_holes_change(book, filled):
    out = filled()
    before, after = parts(book), parts(out)
    changed = [name for name in before if before[name] != after[name]]
    assert list(before) == list(after)
    assert changed == ["xl/worksheets/sheet1.xml"]
    # Taken out of both, what was a hole leaves the same XML.
    holes = [
        f"{letters_of(column)}{row}"
        for row, line in enumerate(values(book), 1)
        for column, value in enumerate(line, 1)
        if value is None
    ]
    cut = re.compile("|".join(rf'<c r="{hole}"[^>]*?(/>|>.*?</c>)' for hole in holes).encode())
    assert len(holes) == 10
    assert cut.sub(b"", before[changed[0]]) == cut.sub(b"", after[changed[0]])
    for old, new in zip(values(book), values(out), strict=True):
        assert all(b == a for a, b in zip(old, new, strict=True) if a is not None)
        assert None not in new
        assert new[2] in ("colour", "red", 'a <b> & "c"')
    assert openpyxl.load_workbook(out).active["A4"].font.bold


def test_values_are_stored_as_their_column_stores_them(filled):
    found = values(filled())[1:]
    assert {type(row[0]) for row in found} <= {float, int}
    assert all(isinstance(row[3], bool) for row in found)


def test_the_same_seed_gives_the_same_bytes(filled):
    first = filled().read_bytes()
    assert first == filled("again.xlsx").read_bytes()
    assert first != filled("other.xlsx", "--seed", 1).read_bytes()


def test_a_flag(filled):
    found = values(filled("out.xlsx", "--flag", "settled"))
    assert found[0][4] == "settled"
    assert all(isinstance(row[4], bool) for row in found[1:])


def test_a_model_of_a_workbook_fills_text(model, tmp_path):
    (tmp_path / "new.csv").write_text("size,count,colour,member\n,1,red,TRUE\n1.5,2,,\n")
    argv = ("impute", tmp_path / "new.csv", "-o", tmp_path / "new-out.csv")
    assert run(*argv, "--model", model) == 0
    assert ",," not in (tmp_path / "new-out.csv").read_text()


def marked_as_missing(tmp_path, cell):
    """A workbook with this cell, as Excel writes it, in place of the number 77."""
    book, place = openpyxl.Workbook(), tmp_path / "new.xlsx"
    for line in [("size", "count", "colour", "member"), (0.5, 77, "red", True)]:
        book.active.append(line)
    book.save(place)
    changed = {
        name: re.sub(rb'<c r="B2"[^>]*><v>77</v></c>', cell, content)
        for name, content in parts(place).items()
    }
    with zipfile.ZipFile(place, "w") as package:
        for name, content in changed.items():
            package.writestr(name, content)
    return place


def test_an_error_that_says_not_available_is_filled(model, tmp_path):
    place = marked_as_missing(tmp_path, b'<c r="B2" t="e"><v>#N/A</v></c>')
    out = tmp_path / "out.xlsx"
    assert run("impute", place, "-o", out, "--model", model) == 0
    assert values(out)[1][1] in (0, 1, 2, 3)


def test_a_formula_that_says_not_available_is_refused(model, tmp_path, capsys):
    place = marked_as_missing(tmp_path, b'<c r="B2" t="e"><f>NA()</f><v>#N/A</v></c>')
    assert run("impute", place, "-o", tmp_path / "out.xlsx", "--model", model) == 2
    told = capsys.readouterr().err
    assert "cell B2, column 'count': expected a value; got a formula that is '#N/A'" in told
    assert not (tmp_path / "out.xlsx").exists()


def test_cells_that_are_not_there_or_have_another_prefix():
    """Other programs leave out empty cells, or names of cells, and name elements by prefixes."""
    sheet = Sheet(b'<x:s><x:row r="2"><x:c><x:v>1</x:v></x:c><x:c r="C2" s="4"/></x:row></x:s>')
    new = sheet.replaced({(2, 2): 1.5, (2, 3): "a&b", (2, 4): True})
    assert new == (
        b'<x:s><x:row r="2"><x:c><x:v>1</x:v></x:c><x:c r="B2"><x:v>1.5</x:v></x:c>'
        b'<x:c r="C2" s="4" t="inlineStr"><x:is><x:t xml:space="preserve">a&amp;b</x:t></x:is>'
        b'</x:c><x:c r="D2" t="b"><x:v>1</x:v></x:c></x:row></x:s>'
    )


def test_letters_of_columns():
    assert [letters_of(n) for n in (1, 26, 27, 702, 703)] == ["A", "Z", "AA", "ZZ", "AAA"]
    assert all(column_of(letters_of(n)) == n for n in range(1, 1000))


def test_what_openpyxl_would_have_written_is_another_number():
    """Why the XML is cut, and not written anew: if this fails, openpyxl may write it."""
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.active.append([LONG])
    book.save(buffer)
    assert np.float64(openpyxl.load_workbook(buffer).active["A1"].value) != LONG
