"""How far a Gaussian is drawn in: much where rows are few, hardly where columns hang together."""

import numpy as np

from plmcmc.data import Schema
from plmcmc.training.gaussian import RIDGE
from plmcmc.training.ridge import chosen_ridge
from plmcmc.training.validation import Hidden


def ridge_of(x, seed=0, share=0.3):
    table = np.where(np.random.default_rng(9).random(x.shape) < share, np.nan, x)
    names = [str(place) for place in range(x.shape[1])]
    schema = Schema.of(table, names, ["continuous"] * len(names), [None] * len(names))
    hidden, known = Hidden.of(schema, table, seed)
    return chosen_ridge(schema, schema.regions(known), hidden)


def test_few_rows_of_unrelated_columns_need_more():
    x = np.random.default_rng(0).normal(size=(120, 15))
    assert ridge_of(x) == 0.1


def test_columns_that_nearly_repeat_each_other_need_the_least():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 6)) + 0.05 * rng.normal(size=(150, 6))
    assert ridge_of(x) == RIDGE


def test_many_rows_need_none_of_it():
    x = np.random.default_rng(0).normal(size=(400, 10))
    assert ridge_of(x) == RIDGE
    assert ridge_of(x[:30, :2]) == RIDGE
