"""Holes get the column's mean; all else stays; what is no table of numbers is refused."""

import numpy as np
import pandas as pd
import pytest

from plmcmc.baselines import MeanImputer
from plmcmc.data import DataError

NAN = np.nan
TABLE = np.array([[1.0, 2.0], [3.0, NAN], [NAN, 7.0]])
FILLED = np.array([[1.0, 2.0], [3.0, 4.5], [2.0, 7.0]])


def test_holes_get_the_mean():
    np.testing.assert_array_equal(MeanImputer().fill(TABLE), FILLED)


def test_the_table_handed_over_is_not_written_to():
    table = TABLE.copy()
    result = MeanImputer().fill(table)
    result[:] = 0
    np.testing.assert_array_equal(table, TABLE)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(TABLE, columns=["a", "b"]),
        pd.DataFrame(TABLE).astype("Float64"),
        pd.DataFrame(TABLE).astype("Int64"),
        pd.DataFrame(TABLE).astype({0: "Int64"}),
        TABLE.astype(np.float32),
        TABLE.tolist(),
    ],
    ids=["pandas", "nullable", "nullable integers", "mixed", "single precision", "lists"],
)
def test_tables_of_many_kinds_are_taken(table):
    found = MeanImputer().fill(table)
    assert type(found) is np.ndarray
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, FILLED)


@pytest.mark.parametrize("table", [np.eye(3), np.eye(3, dtype=int), pd.DataFrame(np.eye(2, 3))])
def test_without_holes_nothing_changes(table):
    np.testing.assert_array_equal(MeanImputer().fill(table), table)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["x", "y", "x"]),
        pd.Series(["x", "y", "x"], dtype="category"),
        pd.Series([1.0, 2.0, 1.0], dtype="category"),
        pd.Series([True, False, True]),
    ],
)
def test_a_categorical_column_is_refused_by_name(column):
    table = pd.DataFrame(TABLE, columns=["a", "b"]).assign(colour=column)
    with pytest.raises(DataError, match="column 'colour' is categorical"):
        MeanImputer().fill(table)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.array([[1.0, NAN], [2.0, NAN]]), "column 1 has no observed value"),
        (np.zeros((2, 2, 2)), r"must be a table.*\(2, 2, 2\)"),
        (np.zeros(3), "one row per case"),
        (np.zeros((0, 3)), "empty"),
        (np.array([[1.0, np.inf]]), "is infinite"),
        (np.array([["a", "b"]], dtype=object), "must hold numbers"),
        (np.array([[True, False]]), "must be a floating array"),
    ],
)
def test_what_is_no_table_is_refused(table, message):
    with pytest.raises(DataError, match=message):
        MeanImputer().fill(table)
