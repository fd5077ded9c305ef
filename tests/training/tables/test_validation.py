"""Hidden values: which are taken, how they are scored, and what follows for training."""

import numpy as np
import pytest
from scipy.special import ndtri

from plmcmc.data import Schema
from plmcmc.imputation import Effort
from plmcmc.imputation.learning import fit_table
from plmcmc.training.tables.settings import TableTraining
from plmcmc.training.tables.validation import PATIENCE, WINDOW, Hidden, ScoreHistory


def schema_of(table, kinds=None, levels=None):
    names = [str(place) for place in range(table.shape[1])]
    return Schema.of(
        table, names, kinds or ["continuous"] * len(names), levels or [None] * len(names)
    )


def holed(rows=400, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(rows, columns))
    table[rng.random(table.shape) < 0.4] = np.nan
    return table


def test_one_value_of_a_row_is_hidden_and_never_its_only_one():
    table = holed()
    schema = schema_of(table)
    hidden, left = Hidden.of(schema, table, 0)
    seen = np.isfinite(table)
    gone = seen & np.isnan(left)
    assert gone.sum() == len(hidden.rows) == min(100, int(0.1 * seen.sum()))
    assert gone.sum(1).max() == 1
    assert (seen.sum(1)[hidden.rows] > 1).all()
    assert (table[hidden.rows, hidden.columns] == hidden.truth).all()
    assert (np.diff(hidden.rows) > 0).all()


def test_a_column_of_few_values_keeps_them():
    table = holed()
    table[9:, 2] = np.nan
    table[:9, 2] = np.arange(9.0)
    hidden, _ = Hidden.of(schema_of(table), table, 0)
    assert not (hidden.columns == 2).any()


def test_scores_are_the_crps_of_ranks_and_right_or_wrong_of_levels():
    table = np.stack([np.arange(40.0), np.arange(40.0) % 4], 1)
    schema = schema_of(table, ["continuous", "categorical"], [None, 4])
    hidden = Hidden(schema, np.array([3, 5]), np.array([0, 1]), np.array([19.0, 1.0]))
    low, high = schema.regions(table)
    inside = np.where(np.isfinite(low), low + 1e-9, high - 1e-9)
    # Draws of the first value: rows 19 and 29; of the second one right and one wrong.
    scores = np.concatenate([inside[[19, 29]], inside[[5, 6]]])
    by_rank = ndtri((np.array([19, 29]) + 0.5) / 40)
    wide = by_rank[1] - by_rank[0]
    assert hidden.scores(scores) == pytest.approx([wide / 2 - wide / 2, 0.5 - 0.5], abs=1e-6)
    both_wrong = np.concatenate([inside[[29, 29]], inside[[6, 6]]])
    assert hidden.scores(both_wrong) == pytest.approx([wide, 1.0])


def history(*means, cells=200, noise=0.0):
    rng = np.random.default_rng(0)
    means = np.array(means)[:, None]
    return ScoreHistory(
        means + noise * rng.normal(size=(len(means), cells)) + rng.normal(size=cells)
    )


def test_training_stops_when_it_has_been_getting_worse_and_the_best_is_kept():
    falls, rises = np.linspace(1.0, 0.5, 10), np.linspace(0.5, 1.0, 2 * PATIENCE)
    assert not history(*falls, noise=0.1).over
    found = history(*falls, *rises, noise=0.1)
    assert found.over
    assert abs(found.best - len(falls)) <= WINDOW
    assert found.improved
    assert not history(*falls, *rises[:3], noise=0.1).over


def test_a_gain_within_the_noise_is_none():
    assert not history(1.0, 1.2, 1.3, noise=0.1).improved
    # Paired differences have a deviation of 1.4: of 20 a mean's is .3, of 2,000 it is .03.
    assert not history(1.0, 1.05, cells=20, noise=0.01).improved
    assert history(1.0, 0.85, cells=2000, noise=1.0).improved


def test_a_gain_of_a_standard_error_is_sure():
    # Differences of a deviation of 1: of 100 the mean's is .1.
    chance = np.tile([-1.0, 1.0], 50)
    assert ScoreHistory(np.stack([0.2 + chance, 0 * chance])).sure
    assert not ScoreHistory(np.stack([0.05 + chance, 0 * chance])).sure


def test_others_join_who_beat_the_start_and_are_not_far_behind():
    rng = np.random.default_rng(0)
    values = 200
    start = np.full(values, 0.5)
    # Training gained .1, and others are compared value by value.
    before = np.stack([start, *[np.full(values, 0.4)] * 5])
    noise = rng.normal(size=values)
    noise = (noise - noise.mean()) / noise.std()

    def joined(scores):
        return ScoreHistory(before).joined_by(scores)

    def others(mean, errors):
        """Return scores whose distance to the flow's is so many standard errors."""
        return mean + noise * (mean - 0.4) * values**0.5 / errors

    assert joined(others(0.45, errors=2))
    assert not joined(others(0.45, errors=4))
    # Better than nothing they must be, however noisy.
    assert not joined(others(0.51, errors=2))
    # Who beats the flow joins it.
    assert joined(np.full(values, 0.3))


def test_noise_is_not_learned():
    """Independent columns: nothing beyond the Gaussian is there, and nothing is found."""
    table = holed(rows=120, columns=6)
    effort = Effort(
        members=2,
        mixtures=0,
        couplings=4,
        width=32,
        training=TableTraining(updates=600, batch=64),
    )
    model = fit_table(schema_of(table), table, effort, 0, progress=False)
    assert not any(network.weights[-1].any() for network in model.flow.networks)
