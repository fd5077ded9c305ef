"""Levels that are declared and never seen, rare ones, and those that have an order."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from safetensors.torch import load_file, save_file

from plmcmc.data import DataError, Schema
from plmcmc.data.schema import MOST_SPLITS
from plmcmc.flows import FileError
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.layout import Layout
from plmcmc.training.tables.validation import Hidden
from rehashed import rehash
from toy_tables import TINY


def two_levels(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=rows)
    words = np.where(score > 0, "x", "y").astype(object)
    missing = rng.random(rows) < 0.25
    return words, score + 0.3 * rng.normal(size=rows), missing


def test_levels_never_seen_are_never_filled_in():
    words, number, missing = two_levels()
    column = pd.Series(pd.Categorical(words, ["x", "y", "never", "nor this"]))
    table = pd.DataFrame({"a": column.mask(missing), "b": number})
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    assert imputer.layout_.levels[0] == ("x", "y")
    filled = imputer.transform(table)
    assert filled["a"].dtype == column.dtype
    assert set(filled["a"]) == {"x", "y"}
    other = pd.DataFrame({"a": pd.Categorical(["never"], ["x", "never"]), "b": [1.0]})
    with pytest.raises(
        DataError, match=r"row 0: expected one of the fitted table's values.* got 'never'"
    ):
        imputer.transform(other)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_level_seen_once_is_drawn_about_as_often(seed):
    words, number, missing = two_levels()
    words[np.flatnonzero(~missing)[seed]] = "rare"
    table = pd.DataFrame({"a": pd.Series(words).mask(missing), "b": number})
    imputer = FlowImputer(TINY, random_state=seed).fit(table)
    place = imputer.layout_.levels[0].index("rare")
    drawn = imputer.sample(table[missing], 40)[:, :, 0]
    # Once in 225 values; the model of 20 updates may make it a few times as much.
    assert (drawn == place).mean() < 0.05


def test_of_many_levels_all_are_filled_in_and_kept_in_files(tmp_path):
    rng = np.random.default_rng(0)
    # Few of them are frequent, so that which level is missing can mostly be told.
    codes = np.concatenate([np.arange(120), rng.integers(2, size=480)])
    words = np.array([f"level {code}" for code in codes], dtype=object)
    number = np.where(codes == 0, 3.0, -3.0) + rng.normal(size=600)
    missing = rng.random(600) < 0.2
    table = pd.DataFrame({"a": pd.Series(words).mask(missing), "b": number})
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    assert imputer.model_.schema.width == MOST_SPLITS + 2
    filled = imputer.transform(table)
    known = set(table["a"].dropna())
    assert set(filled["a"]) <= known
    told = missing & (codes == 0)
    assert (filled["a"][told] == "level 0").mean() > 0.8
    drawn = imputer.sample(table[missing], 40)[:, :, 0]
    levels = np.array(imputer.layout_.levels[0])
    rare = ~np.isin(levels[drawn.astype(int)], ["level 0", "level 1"])
    assert 0.05 < rare.mean() < 0.4
    path = imputer.save(tmp_path / "m")
    pd.testing.assert_frame_equal(FlowImputer.load(path).transform(table), filled)
    for spoil in (lambda cuts: cuts.flip(0), lambda cuts: cuts * 0, lambda cuts: cuts * np.nan):
        tensors = load_file(path / "weights.safetensors")
        tensors["column.0.cuts"] = spoil(tensors["column.0.cuts"]).contiguous()
        save_file(tensors, imputer.save(path, overwrite=True) / "weights.safetensors")
        rehash(path)
        with pytest.raises(FileError, match=r"column\.0: expected finite .* cuts that rise"):
            FlowImputer.load(path)


def test_rare_levels_are_not_hidden_for_validation():
    codes = np.array([0.0] * 150 + [1.0] * 145 + [2.0] * 5)
    table = np.stack([codes, np.arange(300.0)], 1)
    schema = Schema.of(table, ["a", "b"], ["categorical", "continuous"], [3, None])
    for seed in range(20):
        hidden, left = Hidden.of(schema, table, seed)
        assert len(hidden.rows) > 20
        assert (left[:, 0] == 2).sum() == 5


def test_an_enum_of_polars_keeps_its_order():
    enum = pl.Enum(["low", "mid", "high"])
    table = pl.DataFrame({"e": pl.Series(["mid", "high", "low", None] * 5, dtype=enum)})
    layout = Layout.of(table)
    assert layout.kinds == ("ordinal",)
    assert layout.levels == (("low", "mid", "high"),)


def test_ordered_categories_keep_their_order_without_those_never_seen():
    order = ["small", "medium", "large", "huge"]
    values = pd.Categorical(["large", "small", "medium"], order, ordered=True)
    assert Layout.of(pd.DataFrame({"s": values})).levels == (("small", "medium", "large"),)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([f"id{n}" for n in range(40)], "got 40 among 40 values, as in identifiers"),
        ([[1, 2]] * 40, r"got \[1, 2\] in row 0. Turn them into one kind"),
        ([1j] * 40, "got complex128, which cannot be imputed"),
        (pd.interval_range(0, 40), "got interval.*cannot be imputed"),
        (pd.date_range("2020", periods=40), "got datetime64"),
    ],
)
def test_columns_that_cannot_be_learned(column, message):
    with pytest.raises(DataError, match=message):
        Layout.of(pd.DataFrame({"a": column}))
