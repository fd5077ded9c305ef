"""What a column of text is taken for: numbers, categories, or something to leave as it is."""

from argparse import Namespace
from pathlib import Path

import pandas as pd
import pytest

from plmcmc.tables.columns import plan_of_tables
from plmcmc.tables.parquet import read_parquet
from plmcmc.tables.text import table_of_text

ROWS = 60


def detected(cells):
    """Return the kind of a column with these cells, or why it passes through, and its holes."""
    text = "x;k\n" + "".join(f"{cell};{row % 7}\n" for row, cell in enumerate(cells))
    table = table_of_text(Path("data.csv"), text, ";")
    plan = plan_of_tables([table], Namespace(types=None, exclude=[]))
    return plan.known.kinds.get("x") or plan.passed["x"], table.holes("x")


def measured(mark, every=5):
    """Return numbers that hardly repeat, with a mark in every fifth cell."""
    return [mark if row % every == 2 else f"{1.37 * row:.2f}" for row in range(ROWS)]


@pytest.mark.parametrize("mark", ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "NULL", "None"])
def test_marks_of_missing_values_that_programs_write(mark):
    assert detected(measured(mark)) == ("continuous", ROWS // 5)
    assert detected([mark or "w", "w", "v"] * 20)[0] == "categorical"


@pytest.mark.parametrize("mark", [".", "-", "--", "*", "missing", "Not known"])
def test_other_marks_among_many_numbers_are_asked_about(mark):
    """As categories, the numbers would mean nothing, and the marks would never be filled."""
    with pytest.raises(ValueError, match="expected a number, like most values") as told:
        detected(measured(mark))
    assert "data.csv, line 4, column 'x'" in str(told.value)
    assert f"got {mark!r}. Correct it, mark it missing with --na-values" in str(told.value)


@pytest.mark.parametrize("mark", ["none", "missing", "-"])
@pytest.mark.parametrize("numbers", [9, 25])
def test_marks_in_most_of_the_cells_are_asked_about(mark, numbers):
    cells = [f"{1.37 * row:.2f}" if row < numbers else mark for row in range(ROWS)]
    with pytest.raises(ValueError, match="expected a number, like the other values") as told:
        detected(cells)
    assert f"line {numbers + 2}, column 'x'" in str(told.value)


@pytest.mark.parametrize("mark", [".", "-"])
def test_marks_without_letters_are_asked_about_among_few_numbers_too(mark):
    with pytest.raises(ValueError, match="like most values"):
        detected([mark if row % 5 == 0 else str(row % 4) for row in range(ROWS)])


@pytest.mark.parametrize(
    "cells",
    [
        # School grades, children, and words of which only some are numbers.
        [["K", "1", "2", "3"][row % 4] for row in range(ROWS)],
        [["0", "1", "2", "3+"][row % 4] for row in range(ROWS)],
        [["-", "-", "-", "1"][row % 4] for row in range(ROWS)],
        [["low", "high", "?", "none"][row % 4] for row in range(ROWS)],
        # Cigarettes a day, of which most people smoke none.
        ["none" if row % 3 else str(row % 7) for row in range(ROWS)],
    ],
)
def test_categories_of_which_some_are_numbers(cells):
    assert detected(cells)[0] == "categorical"


def test_words_among_few_numbers_are_text():
    assert detected([f"w{row}" if row % 3 else str(row) for row in range(ROWS)])[0] == "identifier"


@pytest.mark.parametrize("number", ["1,5", "1,234", "1,234,567.8", "1.234,5", "-1.234.567,8"])
def test_commas_in_numbers_are_refused(number):
    with pytest.raises(ValueError, match="no commas; got") as told:
        detected([*map(str, range(30)), *[number] * 30])
    assert repr(number) in str(told.value)


@pytest.mark.parametrize(
    "form", ["{}%", "{} %", "${}", "€{}", "{} €", "({})", "\u2212{}", "1 {:03}", "1'{:03}.5"]
)
def test_numbers_with_other_signs_pass_through_as_such(form):
    cells = [form.format(row + 10) for row in range(ROWS)]
    words = f"numbers written like {cells[0]!r}: only plain ones are filled"
    assert detected(cells) == (words, 0)
    assert detected(["", *cells]) == (words, 1)
    # Those that repeat are categories as before.
    assert detected([form.format(row % 4 + 10) for row in range(ROWS)])[0] == "categorical"


def test_gaps_between_thousands_need_not_be_in_all_numbers():
    cells = ["", *(str(990 + row) if row < 10 else f"1 {row:03}" for row in range(ROWS))]
    assert detected(cells) == ("numbers written like '1 010': only plain ones are filled", 1)


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        # In order, or mixed as by a split into two; random, but all equally long.
        ("identifier", [1000 + 7 * row for row in range(ROWS)]),
        ("identifier", [9000 - 70 * row for row in range(ROWS)]),
        ("identifier", [1 + 7 * row % 61 for row in range(ROWS)]),
        ("identifier", [100_000 + 7919 * row % 899_981 for row in range(1, ROWS)]),
        # Incomes and populations, of which none occurs twice.
        ("integer", [20_000 + 7919 * row % 61_001 for row in range(ROWS)]),
        ("integer", [900 + 611_953 * row % 1_000_003 for row in range(ROWS)]),
    ],
)
def test_whole_numbers_that_identify_rows_and_those_that_measure(kind, cells, tmp_path):
    assert len(set(cells)) == len(cells)
    assert detected(cells) == (kind, 0)
    pd.DataFrame({"x": cells}).to_parquet(tmp_path / "data.parquet")
    table = read_parquet(tmp_path / "data.parquet")
    plan = plan_of_tables([table], Namespace(types=None, exclude=[]))
    assert (plan.known.kinds.get("x") or plan.passed["x"]) == kind
    # With a hole, it is to be filled.
    assert detected(["", *cells]) == ("integer", 1)


@pytest.mark.parametrize("form", ["{:03}", "192.168.1.{}", "A{}", "{}x{}", "{} Street", "555-{}"])
def test_identifiers_are_no_numbers(form):
    assert detected([form.format(row + 10, row) for row in range(ROWS)])[0] == "identifier"
    assert detected(["", *(form.format(row, row) for row in range(ROWS))])[0] == "free text"
