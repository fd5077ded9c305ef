"""Rows at random from files in one pass: every row as likely, the same rows by the same seed."""

import gzip

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plmcmc.tables import read_table
from plmcmc.tables.sample import sampled
from table_files import text

ODD = 'name,note\n"a\nb","say ""so"""\n\nc,5" pipe\n"d",\n'


def numbers(sample):
    return [float(n) for table in sample.tables for n in _column(table)]


def _column(table):
    return table.words.of("x") if hasattr(table, "words") else table.series("x")


@pytest.fixture(params=["csv", "parquet", "tsv", "csv.gz"])
def files(request, tmp_path):
    """Three files of 40 rows with the numbers from 0 on."""
    found = []
    for number in range(3):
        frame = pd.DataFrame({"x": np.arange(40) + 40 * number, "y": "word"})
        found.append(tmp_path / f"{number}.{request.param}")
        if request.param == "parquet":
            frame.to_parquet(found[-1], row_group_size=7)
        else:
            frame.to_csv(found[-1], index=False, sep="\t" if request.param == "tsv" else ",")
    return found


def test_rows_are_there_once_and_in_order(files):
    found = sampled(files, [], 30, seed=0)
    assert found.rows == 120
    assert len(numbers(found)) == 30
    assert numbers(found) == sorted(set(numbers(found)))
    assert numbers(sampled(files, [], 30, seed=0)) == numbers(found)
    assert numbers(sampled(files, [], 30, seed=1)) != numbers(found)


def test_of_few_rows_all_are_taken(files):
    assert numbers(sampled(files, [], 500, seed=0)) == list(range(120))


def test_every_row_is_as_likely(files):
    seeds = 120
    counts = np.zeros(120)
    for seed in range(seeds):
        counts[np.array(numbers(sampled(files, [], 12, seed=seed)), dtype=int)] += 1
    expected = 12 * seeds / 120
    # Counts of a sample without replacement vary less than a multinomial's: the test is cautious.
    found = ((counts - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(found, 119) > 1e-4
    # Negative control: rows of the first file alone.
    counts[40:] = 0
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 119) < 1e-4


def test_a_file_of_which_no_row_is_taken_is_left_out(files):
    found = sampled(files, [], 1, seed=0)
    assert [table.rows for table in found.tables] == [1]


def test_odd_records_are_read_as_whole_files_have_them(tmp_path):
    (tmp_path / "odd.csv").write_text(ODD)
    (table,) = sampled([tmp_path / "odd.csv"], [], 10, seed=0).tables
    whole = read_table(tmp_path / "odd.csv")
    for name in whole.names:
        assert table.words.of(name) == whole.words.of(name)
    assert [table.place(row) for row in range(3)] == [whole.place(row) for row in range(3)]
    assert table.place(1) == "line 5"


def test_the_odd_table_of_the_commands(tmp_path):
    (tmp_path / "data.csv").write_text(text())
    (table,) = sampled([tmp_path / "data.csv"], [], 100, seed=0).tables
    whole = read_table(tmp_path / "data.csv")
    assert table.cells == whole.cells
    assert [table.place(row) for row in (0, 7)] == [whole.place(row) for row in (0, 7)]


def test_rows_of_parquet_know_their_places(tmp_path):
    pd.DataFrame({"x": np.arange(50.0)}).to_parquet(tmp_path / "a.parquet", row_group_size=9)
    (table,) = sampled([tmp_path / "a.parquet"], [], 5, seed=3).tables
    assert [table.place(row) for row in range(5)] == [f"row {n + 1:.0f}" for n in table.series("x")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1,2\n3\n", "line 3: expected 2 cells, as in the first line; got 1"),
        ('a,b\n1,"2\n3,4\n', "line 2: expected a closing quote"),
        ("", "the file is empty"),
        ("a,b\n", "column names only"),
        ("PAR1\x15", "the file is Parquet"),
    ],
)
def test_what_is_no_table_is_refused_by_its_line(content, words, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=words):
        sampled([tmp_path / "a.csv"], [], 10, seed=0)


def test_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 99)[:-9])
    for name in ("a.csv", "b.csv.gz"):
        with pytest.raises(ValueError, match="expected UTF-8 text"):
            sampled([tmp_path / name], [], 10, seed=0)


def test_files_must_be_alike(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    pd.DataFrame({"a": [1], "b": [2]}).to_parquet(tmp_path / "c.parquet")
    pd.DataFrame({"a": [1], "b": ["x"]}).to_parquet(tmp_path / "d.parquet")
    for names in (["a.csv", "b.csv"], ["a.csv", "c.parquet"], ["c.parquet", "d.parquet"]):
        with pytest.raises(ValueError, match="expected"):
            sampled([tmp_path / name for name in names], [], 10, seed=0)
    (tmp_path / "e.xlsx").write_bytes(b"")
    with pytest.raises(ValueError, match="got Excel files"):
        sampled([tmp_path / "e.xlsx"], [], 10, seed=0)


@pytest.mark.parametrize("seed", range(4))
def test_names_are_compared_whatever_rows_are_chosen(seed, tmp_path):
    """A table of one row beside one of many is hardly ever in the sample."""
    (tmp_path / "a.csv").write_text("\ufeffa,b\n" + "1,2\n" * 200)
    (tmp_path / "b.csv").write_text('"b",a\n1,2\n')
    (tmp_path / "c.csv").write_text("a,c\n1,2\n")
    assert sampled([tmp_path / "a.csv", tmp_path / "b.csv"], [], 2, seed=seed).rows == 201
    with pytest.raises(ValueError, match=r"c\.csv: expected the columns of .*a\.csv"):
        sampled([tmp_path / "a.csv", tmp_path / "c.csv"], [], 2, seed=seed)
