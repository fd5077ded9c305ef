"""What tables can hold: fractions, ranges, decimals, and arrays in place of frames."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from plmcmc.data import DataError
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.layout import Layout
from toy_tables import TINY


def counts(rows=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    whole = pd.Series(np.round(5 + 2 * x), dtype="UInt8").mask(rng.random(rows) < 0.2)
    return pd.DataFrame({"n": whole, "x": x})


def test_integers_that_are_said_to_be_continuous_are_refused_before_the_work():
    with pytest.raises(DataError, match=r"'n': expected floats.*stored as uint8.*Make it floats"):
        FlowImputer(TINY, types={"n": "continuous"}).fit(counts())


def test_what_a_column_cannot_hold_is_named():
    imputer = FlowImputer(TINY, random_state=0).fit(counts())
    with pytest.raises(DataError, match="column 'n' is stored as uint8, which cannot hold"):
        imputer.complete(counts(), 1, delta={"n": -200})
    with pytest.raises(DataError, match="delta of column 'n' must be a whole number"):
        imputer.complete(counts(), 1, delta={"n": 0.5})


def test_fractions_among_integers_are_refused():
    imputer = FlowImputer(TINY, random_state=0).fit(counts())
    other = pd.DataFrame({"n": [1.0, 1.5], "x": [0.0, 0.0]})
    with pytest.raises(DataError, match=r"'n', row 1: expected an integer; got 1\.5"):
        imputer.transform(other)


def test_decimals_of_polars_come_back_as_decimals():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60).round(2)
    money = [None if n % 5 == 0 else Decimal(f"{v:.2f}") for n, v in enumerate(x)]
    table = pl.DataFrame({"m": pl.Series(money, dtype=pl.Decimal(10, 2)), "x": x})
    filled = FlowImputer(TINY, random_state=0).fit(table).transform(table)
    assert filled.schema == table.schema
    assert filled["m"].null_count() == 0
    seen = table["m"].is_not_null()
    assert filled["m"].filter(seen).equals(table["m"].filter(seen))


def test_an_array_stands_for_the_columns_in_their_order():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    frame.iloc[:9, 1] = np.nan
    imputer = FlowImputer(TINY, random_state=0).fit(frame)
    with pytest.warns(UserWarning, match="valid feature names"):
        found = imputer.transform(frame.to_numpy())
    np.testing.assert_array_equal(found, imputer.transform(frame).to_numpy())


def test_text_is_text_in_every_spelling():
    words = ["a", "b", None] * 10
    for column in (
        pd.Series(words, dtype=object),
        pd.Series(words, dtype="string"),
        pd.Series(words, dtype="string[pyarrow]"),
        pd.Series(words, dtype="category"),
    ):
        assert Layout.of(pd.DataFrame({"w": column})).kinds == ("categorical",)
    assert Layout.of(pl.DataFrame({"w": words})).kinds == ("categorical",)
    assert Layout.of(pl.DataFrame({"w": words}).cast(pl.Categorical)).kinds == ("categorical",)
