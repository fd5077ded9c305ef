"""Some rows of a Parquet file: as the whole file has them, wherever its groups of rows end."""

import subprocess
import sys
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plmcmc.tables import parquet_rows
from plmcmc.tables.parquet import damage_in_words, read_parquet
from plmcmc.tables.parquet_rows import RowReader, batches, without_rows


def read_rows(path, rows):
    reader = RowReader()
    try:
        return reader.read(path, rows)
    finally:
        reader.close()


@pytest.fixture
def path(tmp_path):
    rows = 100
    frame = pd.DataFrame(
        {
            "number": np.arange(rows, dtype=np.float32),
            "word": pd.Categorical(np.array(["a", "b", "c"])[np.arange(rows) * 3 // rows]),
            "when": pd.date_range("2024", periods=rows, tz="Europe/Paris"),
            "list": [[n, None] for n in range(rows)],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=30)
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("at_once", [7, 16_384])
@pytest.mark.parametrize("rows", [(0, 10), (25, 35), (29, 91), (90, 100), (0, 100), (30, 60)])
def test_rows_are_those_of_the_whole(rows, at_once, path, monkeypatch):
    monkeypatch.setattr(parquet_rows, "AT_ONCE", at_once)
    found = read_rows(path, slice(*rows))
    whole = pq.read_table(path).slice(rows[0], rows[1] - rows[0])
    assert found.table.to_pylist() == whole.to_pylist()
    assert found.table.schema.equals(whole.schema, check_metadata=True)
    assert found.place(0) == f"row {rows[0] + 1}"


@pytest.mark.parametrize("at_once", [7, 16_384])
def test_rows_are_read_in_any_order(at_once, path, monkeypatch):
    monkeypatch.setattr(parquet_rows, "AT_ONCE", at_once)
    whole, reader = pq.read_table(path), RowReader()
    asked = [
        (0, 10),
        (10, 20),
        (20, 45),
        (45, 60),
        (60, 61),
        (80, 90),
        (85, 100),
        (0, 30),
        (95, 99),
    ]
    for start, stop in asked:
        found = reader.read(path, slice(start, stop))
        assert found.table.to_pylist() == whole.slice(start, stop - start).to_pylist()


def test_rows_that_follow_are_not_looked_for_from_the_start(path, monkeypatch):
    monkeypatch.setattr(parquet_rows, "AT_ONCE", 7)
    begun, begin = [], parquet_rows._from_group
    monkeypatch.setattr(
        parquet_rows, "_from_group", lambda *given: begun.append(given[1]) or begin(*given)
    )
    reader = RowReader()
    for start in range(0, 100, 5):
        reader.read(path, slice(start, start + 5))
    assert begun == [0]


def test_without_rows_there_are_columns(path):
    table, rows = without_rows(path)
    assert (rows, table.rows, table.names) == (100, 0, ["number", "word", "when", "list"])


def test_checksums_are_looked_at(tmp_path):
    place = tmp_path / "a.parquet"
    values = np.random.default_rng(0).normal(size=5000)
    options = {"compression": "none", "use_dictionary": False}
    for checked in (False, True):
        pq.write_table(pa.table({"x": values}), place, write_page_checksum=checked, **options)
        content = bytearray(place.read_bytes())
        content[20_000] ^= 1
        place.write_bytes(content)
        if checked:
            with pytest.raises(ValueError, match="cannot be read"):
                read_rows(place, slice(0, 5000))
        else:
            # Nobody can tell.
            read_rows(place, slice(0, 5000))


def test_what_is_no_parquet_is_refused(tmp_path):
    place = tmp_path / "a.parquet"
    for content in (b"", b"PAR1", b"text"):
        place.write_bytes(content)
        with pytest.raises(ValueError, match=r"expected a (complete )?Parquet file"):
            without_rows(place)


def test_dates_of_96_bits_are_read_as_they_are(tmp_path):
    path, far = tmp_path / "spark.parquet", datetime(9999, 12, 31)
    table = pa.table({"when": pa.array([far], pa.timestamp("us"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    found = [read_rows(path, slice(0, 1)).table, read_parquet(path).table]
    found += [pa.Table.from_batches(batches(path))]
    assert [own.column("when").to_pylist() for own in found] == [[far]] * 3
    assert without_rows(path)[0].table.schema == found[0].schema == table.schema


def test_a_large_group_of_rows_is_not_loaded_for_a_few(tmp_path):
    path, rng = tmp_path / "a.parquet", np.random.default_rng(0)
    pq.write_table(pa.table({"x": rng.normal(size=4_000_000)}), path, row_group_size=4_000_000)
    code = (
        "import sys, pyarrow as pa; from pathlib import Path;"
        "from plmcmc.tables.parquet_rows import RowReader;"
        "RowReader().read(Path(sys.argv[1]), slice(0, 10));"
        "print(pa.default_memory_pool().max_memory())"
    )
    # A process of its own: the most that was ever taken is counted.
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    assert int(done.stdout) < path.stat().st_size / 4


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError])
def test_too_little_memory_is_no_damage(error, tmp_path):
    with pytest.raises(MemoryError), damage_in_words(tmp_path):
        raise error("malloc of size 8 failed")
