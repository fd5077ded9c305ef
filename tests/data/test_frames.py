"""Tables of pandas and polars: numbers of every kind of column, and labels that must agree."""

import numpy as np
import pandas as pd
import pytest

from plmcmc.data import DataError, Incomplete
from plmcmc.data.frames import Labels, check_order

NAN = float("nan")
TABLE = pd.DataFrame(
    {"age": [1.0, NAN], "bmi": [NAN, NAN], "sex": [0.0, 2.0]}, index=["u", "v"], dtype=float
)
KINDS = {
    "nullable": lambda: TABLE.astype("Float64"),
    "some nullable": lambda: TABLE.astype({"age": "Float64"}),
    "single": lambda: TABLE.astype("Float32"),
    "integers with holes": lambda: TABLE.astype({"age": "Int64", "bmi": "Int64"}),
    "integers": lambda: TABLE.astype({"sex": int}),
    "sparse": lambda: TABLE.astype(pd.SparseDtype(float)),
    "columns of one name": lambda: TABLE.set_axis(["a", "a", "b"], axis=1),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_numbers_of_every_kind_of_column(kind):
    data = Incomplete.of(kind())
    assert data.values.tolist() == [[1, 0, 0], [0, 0, 2]]
    assert data.observed.tolist() == [[True, False, True], [False, False, True]]


@pytest.mark.parametrize("holes", [None, NAN])
def test_numbers_of_polars(holes):
    pl = pytest.importorskip("polars")
    kinds = {"a": pl.Float32, "b": pl.Float64, "c": pl.Int64, "d": pl.Int8}
    whole = None if holes is None else 7
    columns = {"a": [1.0, holes], "b": [holes, 2.0], "c": [3, whole], "d": [4, 5]}
    data = Incomplete.of(pl.DataFrame(columns, schema=kinds))
    expected = [[True, False, True, True], [False, True, holes is not None, True]]
    assert data.observed.tolist() == expected
    assert data.values.tolist() == [[1, 0, 3, 4], [0, 2, 7 if whole else 0, 5]]


@pytest.mark.parametrize(
    "column",
    [
        *(["a", "b"], [True, False], [1.0, "b"], pd.Categorical(["a", "b"])),
        pd.to_datetime(["2020-01-01", "2020-01-02"]),
    ],
)
def test_what_is_no_number_is_refused_by_the_name_of_its_column(column):
    with pytest.raises(DataError, match=r"column 'bmi' has dtype .*FlowImputer"):
        Incomplete.of(TABLE.assign(bmi=column))


def test_polars_that_is_no_number_or_not_there_yet():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"a": [1.0, None], "flag": [True, False]})
    with pytest.raises(DataError, match="column 'flag' has dtype Boolean"):
        Incomplete.of(table)
    with pytest.raises(DataError, match=r"pass x\.collect\(\)"):
        Incomplete.of(table.lazy())


def test_messages_name_columns():
    with pytest.raises(DataError, match="infinite at row 1, column 'bmi'"):
        Incomplete.of(TABLE.assign(bmi=[0.0, np.inf]))
    with pytest.raises(DataError, match=r"too large for torch\.float32 at row 0, column 'bmi'"):
        Incomplete.of(TABLE.assign(bmi=[1e300, 0.0]))


def test_labels_are_what_is_more_than_a_number():
    found = Labels.of(TABLE)
    assert found.columns == ("age", "bmi", "sex")
    assert found.index.to_list() == ["u", "v"]
    for plain in (pd.DataFrame(TABLE.to_numpy()), TABLE.to_numpy(), [[1.0]]):
        assert Labels.of(plain).columns is None
        assert Labels.of(plain).index is None


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        (TABLE.notna()[["bmi", "age", "sex"]], "columns"),
        (TABLE.notna()[::-1], "rows"),
        (pd.Series({"bmi": 1.0, "age": 2.0, "sex": 3.0}), "columns"),
        (pd.Series({"v": 1.0, "u": 2.0}), "rows"),
    ],
)
def test_labels_in_another_order_are_refused(other, wrong):
    with pytest.raises(DataError, match=f"noise has the {wrong} of x in another order"):
        check_order(Labels.of(TABLE), other, "noise")


def test_rows_that_are_only_numbered_are_in_order():
    numbered = TABLE.reset_index(drop=True)
    with pytest.raises(DataError, match="rows of x"):
        check_order(Labels.of(numbered), numbered[::-1], "context")
    with pytest.raises(DataError, match="rows of x"):
        check_order(Labels.of(numbered[::-1]), numbered, "context")


@pytest.mark.parametrize(
    "other",
    [
        *(TABLE, TABLE.notna(), TABLE.to_numpy(), None, 0.1, [1.0, 2.0, 3.0]),
        pd.DataFrame(TABLE.to_numpy()),
        pd.DataFrame({"u": [1.0, 2.0]}, index=["u", "v"]),
        pd.Series({"age": 2.0, "bmi": 1.0, "sex": 3.0}),
    ],
)
def test_labels_that_agree_or_say_nothing(other):
    check_order(Labels.of(TABLE), other, "observed")
