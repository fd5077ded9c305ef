"""Files that are nearly tables: other separators and dates, numbers that mark holes, leftovers."""

import numpy as np
import pandas as pd
import pytest

from plmcmc.tables.kinds import numbers_of
from table_files import run

pytestmark = pytest.mark.usefixtures("tiny")
ROWS = 60


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS).round(3)
    return pd.DataFrame({"x": x, "y": (x + rng.normal(size=ROWS)).round(3)})


@pytest.mark.parametrize(
    ("mark", "suffix"), [(";", "csv"), ("\t", "csv"), ("|", "csv"), (",", "tsv")]
)
def test_another_separator_is_named(mark, suffix, numbers, tmp_path, capsys):
    place = tmp_path / f"a.{suffix}"
    numbers.to_csv(place, sep=mark, index=False)
    assert run("impute", place, "-o", tmp_path / f"b.{suffix}") == 2
    assert f"seems to be separated by {mark!r}" in capsys.readouterr().err
    assert not (tmp_path / f"b.{suffix}").exists()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        # As spreadsheets write them.
        ("dates", [f"{1 + n % 28}/01/2020" for n in range(ROWS)]),
        # Nearly all of their own.
        ("free text", [f"word {n}" for n in range(ROWS)]),
    ],
)
def test_what_is_no_level_passes_through(reason, words, numbers, tmp_path, capsys):
    numbers["words"] = words
    numbers.loc[3, "words"] = None
    numbers.loc[5, "y"] = None
    numbers.to_csv(tmp_path / "a.csv", index=False)
    assert run("impute", tmp_path / "a.csv", "-o", tmp_path / "b.csv", "--effort", "fast") == 0
    assert reason in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "b.csv")
    assert found["y"].notna().all()
    assert found["words"].isna().sum() == 1


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_number_marks_holes_however_it_is_written(suffix, numbers, tmp_path):
    numbers.loc[:9, "y"] = -999.0
    numbers["k"] = np.arange(ROWS) % 4
    numbers.loc[12, "k"] = -999
    place, out = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    write = numbers.to_csv if suffix == "csv" else numbers.to_parquet
    write(place, index=False)
    assert run("impute", place, "-o", out, "--na-values", "-999", "--effort", "fast") == 0
    found = (pd.read_csv if suffix == "csv" else pd.read_parquet)(out)
    assert (found[["y", "k"]] > -100).all(axis=None)
    pd.testing.assert_frame_equal(found.loc[13:], numbers.loc[13:], check_dtype=False)


@pytest.mark.parametrize("command", ["impute", "fit"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_category_that_may_mark_missing_values_is_asked_about(
    suffix, command, numbers, tmp_path, capsys
):
    place = tmp_path / f"a.{suffix}"
    numbers["blood"] = np.resize(["A", "B", "-", "AB"], ROWS)
    # Here a sign is one of two, and means something.
    numbers["rhesus"] = np.resize(["+", "+", "-"], ROWS)
    numbers.to_csv(place, index=False) if suffix == "csv" else numbers.to_parquet(place)
    ask = (command, place, "-o", tmp_path / f"b.{suffix}", "--effort", "fast")
    assert run(*ask) == 0
    told = capsys.readouterr().err
    assert "column blood: '-' is taken for a category. If it marks missing values, add it" in told
    assert "rhesus" not in told
    assert run(*ask, "--overwrite", "--na-values", "-") == 0
    assert "blood" not in capsys.readouterr().err


def test_marks_that_are_numbers_in_any_spelling():
    words = ["NA", "nan", "9-9", "1,5", ""]
    assert numbers_of(["-999", " 9.5 ", "1e3", ".5", *words]) == {-999.0, 9.5, 1000.0, 0.5}


def test_tables_of_a_job_with_more_draws_are_pointed_out(numbers, tmp_path, capsys):
    numbers.loc[:9, "y"] = None
    numbers.to_csv(tmp_path / "a.csv", index=False)
    ask = ("impute", tmp_path / "a.csv", "-o", tmp_path / "d.csv", "--effort", "fast")
    assert run(*ask, "--draws", 3) == 0
    assert "another job" not in capsys.readouterr().err
    assert run(*ask, "--draws", 2, "--overwrite") == 0
    assert "d-3.csv: left over from an earlier run with more draws" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "fit-flow"])
def test_a_directory_that_holds_other_things_is_refused_before_the_work(
    command, numbers, tmp_path, capsys
):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("mine")
    place = tmp_path / "a.csv"
    numbers.to_csv(place, index=False)
    assert run(command, place, "-o", precious, "--overwrite") == 2
    assert "contains other files: choose another name" in capsys.readouterr().err
    assert sorted(own.name for own in tmp_path.iterdir()) == ["a.csv", "precious"]
    assert (precious / "thesis.txt").read_text() == "mine"
