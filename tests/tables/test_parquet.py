"""A Parquet file's columns, however they are stored."""

import pyarrow as pa
import pytest

from plmcmc.tables.parquet import ParquetTable


@pytest.mark.parametrize(
    ("stored", "values"),
    [
        (pa.string(), ["a", "none", None]),
        (pa.string_view(), ["a", "none", None]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "none", None]),
        (pa.dictionary(pa.int8(), pa.int64()), [1, -9, None]),
        (pa.int64(), [1, -9, None]),
    ],
    ids=str,
)
def test_marks_of_holes_are_found_in_every_type(stored, values, tmp_path):
    table = pa.table({"x": pa.array(values, stored)})
    found = ParquetTable(tmp_path / "a.parquet", table, frozenset(["none", "-9"]))
    assert found.missing("x").tolist() == [False, True, True]
    if pa.types.is_dictionary(stored):
        assert list(found.series("x").cat.categories) == values[:1]
