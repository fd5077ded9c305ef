"""FlowImputer: scikit-learn's manners, tables of every library, columns of every kind."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from plmcmc.data import DataError
from plmcmc.imputation import FlowImputer, convergence, sampling
from plmcmc.posterior import ConvergenceWarning, MemoryWarning
from toy_tables import LEAST, TINY, mixed, with_holes


@parametrize_with_checks([FlowImputer(LEAST, random_state=0)])
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    table, holes = with_holes(mixed())
    return FlowImputer(TINY, random_state=0).fit(table), table, holes


def test_pandas_in_pandas_out(fitted):
    imputer, table, holes = fitted
    filled = imputer.transform(table)
    assert not filled.isna().any().any()
    pd.testing.assert_index_equal(filled.index, table.index)
    assert filled.dtypes.tolist() == table.dtypes.tolist()
    for place, name in enumerate(table.columns):
        kept = ~holes[:, place]
        pd.testing.assert_series_equal(filled[name][kept], table[name][kept])
    assert set(filled["colour"]) <= {"red", "green", "blue"}
    assert table.isna().any().any()


def test_polars_in_polars_out():
    polars = pytest.importorskip("polars")
    frame, _ = with_holes(mixed()[["size", "count", "flag", "colour"]])
    table = polars.from_pandas(frame)
    filled = FlowImputer(TINY, random_state=0).fit_transform(table)
    assert filled.schema == table.schema
    assert filled.null_count().sum_horizontal()[0] == 0
    for name in table.columns:
        seen = ~table[name].is_null()
        assert filled[name].filter(seen).equals(table[name].filter(seen))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_keep_their_dtype_and_every_seen_bit(kind):
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(kind)
    holes = np.random.default_rng(1).random(x.shape) < 0.4
    holes[3] = True
    table = np.where(holes, np.nan, x).astype(kind)
    filled = FlowImputer(TINY, random_state=0).fit_transform(table)
    assert filled.dtype == kind
    assert np.isfinite(filled).all()
    assert (filled[~holes] == x[~holes]).all()


def test_the_same_seed_gives_the_same_numbers_and_loads_nothing_from_training(fitted):
    imputer, table, _ = fitted
    again = FlowImputer(TINY, random_state=0).fit_transform(table)
    pd.testing.assert_frame_equal(again, imputer.transform(table))


def test_new_rows_need_no_refitting(fitted):
    imputer, _, _ = fitted
    fresh, _ = with_holes(mixed(30, seed=5), seed=6)
    filled = imputer.transform(fresh)
    assert len(filled) == 30
    assert not filled.isna().any().any()


def test_columns_that_were_not_fitted_or_come_in_another_order_are_refused(fitted):
    imputer, table, _ = fitted
    with pytest.raises(ValueError, match="must be in the same order"):
        imputer.transform(table[table.columns[::-1]])
    with pytest.raises(ValueError, match="price"):
        imputer.transform(table.drop(columns="price"))


def test_a_chunk_that_did_not_fit_is_not_counted_twice(monkeypatch):
    x = np.random.default_rng(0).normal(size=(200, 3))
    x[:, 1] = np.nan
    x[:50, 1] = 1.0 + np.arange(50.0)
    imputer = FlowImputer(TINY, random_state=0).fit(x)
    whole = imputer.transform(x)
    seen = []

    def full(self, step, state, info):
        # The memory ends in the middle of the first walk.
        seen.append(len(state.completion))
        if len(seen) == 8:
            raise MemoryError
        record(self, step, state, info)

    record = sampling._Show.record
    monkeypatch.setattr(sampling._Show, "record", full)
    with pytest.warns(MemoryWarning):
        halved = imputer.transform(x)
    assert min(seen) < max(seen)
    assert (halved == whole).all()


def test_rows_with_nothing_missing_cost_nothing_and_rows_with_nothing_seen_are_drawn(fitted):
    imputer, _, _ = fitted
    whole = mixed(10, seed=7)
    pd.testing.assert_frame_equal(imputer.transform(whole), whole)
    empty = whole.mask(np.ones(whole.shape, bool))
    assert not imputer.transform(empty).isna().any().any()


@pytest.mark.parametrize("statistic", ["mean", "median", "draw"])
def test_columns_keep_their_support(statistic):
    table, _ = with_holes(mixed())
    filled = FlowImputer(TINY, statistic=statistic, random_state=0).fit_transform(table)
    assert set(filled["grade"]) <= {"low", "mid", "high"}
    assert filled["flag"].isin([True, False]).all()
    assert filled["count"].between(table["count"].min(), table["count"].max()).all()
    assert filled["size"].between(table["size"].min(), table["size"].max()).all()


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_unordered_levels_are_voted_for(statistic):
    # Levels 0 and 2 are frequent, 1 is rare: a mean or a median of codes would be 1.
    rng = np.random.default_rng(0)
    levels = rng.choice(["a", "b", "c"], 300, p=[0.48, 0.04, 0.48]).astype(object)
    table = pd.DataFrame({"x": rng.normal(size=300), "level": levels})
    table.loc[:99, "level"] = None
    filled = FlowImputer(TINY, statistic=statistic, random_state=0).fit_transform(table)
    assert (filled["level"][:100] == "b").mean() < 0.2


def test_draws_and_intervals(fitted):
    imputer, table, holes = fitted
    drawn = imputer.sample(table, 7)
    assert drawn.shape == (7, *table.shape)
    assert (drawn[:, ~holes] == drawn[0][~holes]).all()
    assert (drawn.std(0)[:, 0][holes[:, 0]] > 0).any()
    low, high = imputer.interval(table, 0.8, draws=30)
    words = table.columns.get_loc("colour")
    told = np.isfinite(low)
    assert (low[told] <= high[told]).all()
    # Ends are values that may be; levels without an order have none where draws differ.
    assert told[:, [p for p in range(table.shape[1]) if p != words]].all()
    assert told[~holes[:, words], words].all()
    assert not told[holes[:, words], words].all()
    whole = low[:, 1]
    np.testing.assert_array_equal(whole, np.round(whole))
    assert (low[~holes] == high[~holes]).all()


@pytest.mark.parametrize("level", [0, 1, 90, np.nan, "0.9", None])
def test_levels_of_intervals_that_are_none(fitted, level):
    imputer, table, _ = fitted
    with pytest.raises(ValueError, match="level must be a number between 0 and 1; got"):
        imputer.interval(table, level)


def bad_frame(**columns):
    base = {"a": np.arange(20.0), "b": np.arange(20.0) % 3}
    return pd.DataFrame(base | columns)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (bad_frame()[:1], {}, "expected a table of at least 2 rows; got 1 row"),
        (
            bad_frame(c=np.full(20, np.nan)),
            {},
            "column 'c': expected values to learn from; all are missing",
        ),
        (
            bad_frame(c=[np.inf] + [1.0] * 19),
            {},
            "column 'c', row 0: expected a finite number; got inf",
        ),
        (
            bad_frame(c=["x", 1.5] * 10),
            {"types": {"c": "continuous"}},
            "column 'c', row 0: expected a number; got 'x'",
        ),
        (
            bad_frame(c=["x", 1.5] * 10),
            {},
            "column 'c': expected values of one kind, text or numbers; got 1.5 in row 1, 'x' in "
            "row 0",
        ),
        (
            bad_frame(c=[Decimal(f"{row}.25") for row in range(20)]),
            {},
            "column 'c': .* got Decimal, which cannot be imputed.* turn it into numbers",
        ),
        (bad_frame(), {"types": ["integer"]}, "types: expected kinds by column name, such as"),
        (
            np.ma.masked_equal(np.arange(40.0).reshape(20, 2), 7.0),
            {},
            "expected an array with NaN at missing values; got a masked array",
        ),
        (
            bad_frame(),
            {"types": {"z": "integer"}},
            r"types: expected columns of the table, .*; got 'z'",
        ),
        (bad_frame(), {"types": {"a": "colour"}}, r"types\['a'\]: expected one of"),
        (
            bad_frame(c=pd.date_range("2020", periods=20)),
            {},
            "column 'c': .* got datetime64.*cannot be imputed. Leave it out",
        ),
        (bad_frame().set_axis(["a", "a"], axis=1), {}, r"these occur more than once: \['a'\]"),
    ],
)
def test_tables_that_cannot_be_fitted(table, options, message):
    with pytest.raises(DataError, match=message):
        FlowImputer(TINY, **options).fit(table)


def test_a_level_that_was_never_seen_is_named(fitted):
    imputer, table, _ = fitted
    strange = table.copy()
    strange.loc["r3", "colour"] = "mauve"
    with pytest.raises(DataError, match=r"column 'colour', row 3: expected one .* got 'mauve'"):
        imputer.transform(strange)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effort": "huge"}, "effort must be one of"),
        ({"statistic": "mode"}, "statistic must be one of"),
    ],
)
def test_settings_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        FlowImputer(**{"effort": TINY} | options).fit(np.zeros((10, 2)))


def test_a_column_of_many_rare_levels_does_no_harm():
    rng = np.random.default_rng(0)
    size = rng.normal(size=63)
    notes = [f"n{row}" if row < 40 else "same" for row in range(63)]
    table = pd.DataFrame({"size": size, "y": size + rng.normal(size=63), "note": notes})
    table.loc[::5, "y"] = np.nan
    filled = FlowImputer(TINY, random_state=0).fit_transform(table)
    assert filled["y"].between(table["y"].min(), table["y"].max()).all()


# Of a member that was moved away some chains stand still.
@pytest.mark.filterwarnings("ignore:.*a chain never moved")
def test_one_draw_may_be_any_members(fitted):
    """Each row begins with any member: the first would have all single draws otherwise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    x[:100, 1] = np.nan
    imputer = FlowImputer(TINY, random_state=0).fit(x)
    with torch.no_grad():
        imputer.model_.flow.mean[1, 1] += 4.0
    drawn = imputer.sample(x, 2)[:, :100, 1]
    far = drawn > 2.0
    # Each row has one draw of each member, and which comes first is up to a coin.
    assert 30 < far[0].sum() < 70
    assert (far[0] != far[1]).mean() > 0.9
    imputer.set_params(statistic="draw")
    assert 30 < (imputer.transform(x)[:100, 1] > 2.0).sum() < 70


def test_draws_are_the_same_for_any_chunk(monkeypatch):
    x = np.random.default_rng(0).normal(size=(200, 2))
    x[:, 1][:190] = np.nan
    imputer = FlowImputer(TINY, random_state=0).fit(x)
    for ask in (lambda: imputer.sample(x, 1), lambda: np.stack(imputer.complete(x, 3))):
        monkeypatch.setattr(sampling, "CPU_ROWS", 256)
        whole = ask()
        monkeypatch.setattr(sampling, "CPU_ROWS", 64)
        np.testing.assert_array_equal(ask(), whole)


@pytest.mark.parametrize("number", [0, -1, 2.5, "two", None])
def test_numbers_of_draws_that_are_none(fitted, number):
    imputer, table, _ = fitted
    for ask in (imputer.sample, imputer.complete):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            ask(table, number)


def test_a_statistic_set_later_is_checked(fitted):
    _, table, _ = fitted
    imputer = FlowImputer(TINY, random_state=0).fit(table).set_params(statistic="mode")
    with pytest.raises(ValueError, match="statistic must be one of"):
        imputer.transform(table)
    with pytest.raises(ValueError, match=r"effort must be one of.*\['fast'\]"):
        FlowImputer(["fast"]).fit(table)


def test_warnings_point_at_whoever_asked(monkeypatch):
    # Of fewer rows each draw is of a model of its own, and has no chain to be told of.
    x = np.random.default_rng(0).normal(size=(200, 2))
    x[:20, 1] = np.nan
    imputer = FlowImputer(replace(TINY, states=20, chains=2), random_state=0).fit(x)
    monkeypatch.setattr(convergence, "CONVERGED", 2.0)
    for ask in (imputer.transform, lambda x: imputer.sample(x, 80), imputer.interval):
        with pytest.warns(ConvergenceWarning) as found:
            ask(x)
        assert found[0].filename == __file__
