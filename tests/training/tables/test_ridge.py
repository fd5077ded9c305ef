"""How far a Gaussian is drawn in: much where rows are few, hardly where columns hang together."""

import numpy as np

from plmcmc.data import Schema
from plmcmc.training.tables.gaussian import RIDGE
from plmcmc.training.tables.ridge import chosen_ridge, true_scores
from plmcmc.training.tables.validation import Hidden


def ridge_of(x, seed=0, share=0.3):
    table = np.where(np.random.default_rng(9).random(x.shape) < share, np.nan, x)
    names = [str(place) for place in range(x.shape[1])]
    schema = Schema.of(table, names, ["continuous"] * len(names), [None] * len(names))
    hidden, known = Hidden.of(schema, table, seed)
    return chosen_ridge(schema, schema.regions(known), hidden)


def test_few_rows_of_unrelated_columns_need_more():
    x = np.random.default_rng(0).normal(size=(120, 15))
    assert ridge_of(x) >= 1.0


def test_columns_that_nearly_repeat_each_other_need_the_least():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 6)) + 0.05 * rng.normal(size=(150, 6))
    assert ridge_of(x) == RIDGE


def test_many_rows_need_none_of_it():
    x = np.random.default_rng(0).normal(size=(400, 10))
    assert ridge_of(x) == RIDGE


def test_where_next_to_nothing_can_be_hidden_rows_and_columns_decide():
    x = np.random.default_rng(0).normal(size=(9, 4))
    assert ridge_of(x, share=0.0) == 0.3


def test_scores_by_column_are_those_of_each_value():
    rng = np.random.default_rng(0)
    levels = rng.integers(3, size=400)
    table = np.stack([rng.normal(size=400), rng.poisson(2.0, 400), levels, rng.random(400)], 1)
    kinds = ["continuous", "integer", "categorical", "continuous"]
    schema = Schema.of(table, ["a", "b", "c", "d"], kinds, [None, None, 3, None])
    hidden, _ = Hidden.of(schema, table, seed=0)
    alone = [
        np.nan if place == 2 else schema.columns[place].marginal.middle(np.array([value]))[0]
        for place, value in zip(hidden.columns, hidden.truth, strict=True)
    ]
    assert set(hidden.columns) == {0, 1, 2, 3}
    np.testing.assert_array_equal(true_scores(hidden), alone)
