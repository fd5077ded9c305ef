"""Columns of numbers: the same codes, however they are stored."""

import numpy as np
import pandas as pd
import pytest

from plmcmc.data import DataError
from plmcmc.imputation.layout import Layout


def frame(values, dtype):
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype)})


def codes(table, kind="continuous"):
    return Layout(("a",), (kind,), (None,)).codes(table)[:, 0]


@pytest.mark.parametrize(
    "dtype", ["float64", "Float64", "Int64", "double[pyarrow]", "int64[pyarrow]", "object"]
)
def test_numbers_of_pandas(dtype):
    np.testing.assert_array_equal(codes(frame([1, None, 0], dtype)), [1, np.nan, 0])


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", "object"])
def test_booleans_as_numbers(dtype):
    table = frame([True, None, False], dtype)
    np.testing.assert_array_equal(codes(table, "integer"), [1, np.nan, 0])


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "Boolean", "Object"])
def test_numbers_of_polars(dtype):
    polars = pytest.importorskip("polars")
    values = [True, None, False] if dtype == "Boolean" else [1, None, 0]
    table = polars.DataFrame({"a": polars.Series(values, dtype=getattr(polars, dtype))})
    np.testing.assert_array_equal(codes(table), [1, np.nan, 0])


@pytest.mark.parametrize("dtype", ["float64", "Float64", "double[pyarrow]", "object"])
def test_the_infinite_is_named(dtype):
    with pytest.raises(
        DataError, match=r"column 'a', row 1: expected a finite number; got inf. Mark"
    ):
        codes(frame([None, np.inf], dtype))


def test_what_is_no_number_is_named():
    # The name of their dtype begins as that of integers does.
    with pytest.raises(DataError, match=r"column 'a', row 0: expected a number; got Interval\("):
        codes(pd.DataFrame({"a": pd.interval_range(0, 2)}))


def test_the_caller_s_numbers_are_copied():
    table = np.array([[1.0], [2.0]])
    codes(pd.DataFrame({"a": table[:, 0]}, copy=False))[:] = 7
    Layout(("0",), ("continuous",), (None,)).codes(table)[:] = 7
    assert table[:, 0].tolist() == [1.0, 2.0]
