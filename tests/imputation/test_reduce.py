"""Means: control variates take noise off, and leave nothing else. Medians: of all draws."""

import numpy as np
import pytest

from plmcmc.data import Schema
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.reduce import Mean, Median, _Sums
from plmcmc.imputation.sampling import Shown

ROWS, PLACES, STATES = 200, 4, 10


def normal_states(seed=0):
    """Draws of normals with means 5 and 7 and their slopes, state by state."""
    rng = np.random.default_rng(seed)
    for state in range(STATES):
        noise = rng.normal(size=(ROWS, PLACES, 2))
        values = np.array([5.0, 7.0]) + noise @ np.array([[1.0, 0.8], [0.0, 0.6]])
        yield Shown(slice(0, ROWS), state, values, -noise)


def reduced(states):
    table = np.random.default_rng(1).normal(6.0, 3.0, size=(500, 2))
    layout = Layout.of(table)
    schema = Schema.of(table, layout.names, layout.kinds, layout.levels)
    mean = Mean(layout, schema, ROWS, STATES)
    for shown in states:
        mean.watch(shown)
    return mean.table()


def test_the_mean_of_normals_is_found_with_hardly_any_noise():
    found = reduced(normal_states())
    plain = reduced(s._replace(slopes=np.zeros_like(s.slopes)) for s in normal_states())
    # Of 40 draws with deviation 1 a mean has one of .16.
    assert np.abs(plain - [5.0, 7.0]).mean() == pytest.approx(0.8 / 40**0.5, rel=0.2)
    assert np.abs(found - [5.0, 7.0]).mean() < 1e-3


def test_rows_that_come_again_are_counted_once():
    states = list(normal_states())
    assert (reduced(states[:4] + states) == reduced(states)).all()


def test_a_mean_stays_in_the_range_that_was_seen():
    far = (s._replace(tables=s.tables + 1000.0) for s in normal_states())
    table = np.random.default_rng(1).normal(6.0, 3.0, size=(500, 2))
    assert (reduced(far) == table.max(0)).all()


def test_levels_in_order_are_rounded_to_the_nearest():
    table = np.arange(30.0)[:, None] % 3 + np.zeros(3)
    layout = Layout(("a", "b", "c"), ("ordinal",) * 3, ((0, 1, 2),) * 3)
    schema = Schema.of(table, layout.names, layout.kinds, [None] * 3)
    mean = Mean(layout, schema, 1, 1)
    drawn = np.array([[[1.0, 0.0, 2.0]] * 3 + [[2.0, 1.0, 2.0]] * 7])
    mean.watch(Shown(slice(0, 1), 0, drawn, np.zeros((1, 10, 3))))
    assert mean.table().tolist() == [[2.0, 1.0, 2.0]]


def skewed_states(seed=0):
    """Draws whose logarithm is standard normal: their median is 1, their mean 1.65."""
    for shown in normal_states(seed):
        noise = -shown.slopes
        yield shown._replace(tables=np.exp(noise))


def medians(states):
    median = Median(Layout.of(np.zeros((9, 2))), ROWS, STATES)
    for shown in states:
        median.watch(shown)
    return median.table()


def test_the_median_is_of_all_states_and_chains():
    found = medians(skewed_states())
    # Of n draws, the median of a log has an error of sqrt(pi / 2 n).
    error = np.sqrt(np.pi / (2 * STATES * PLACES))
    logs = np.log(found)
    assert np.abs(logs.mean(0)).max() < 4 * error / ROWS**0.5
    assert logs.std() == pytest.approx(error, rel=0.15)


def test_medians_of_rows_that_come_again_are_of_the_last_time():
    states = list(skewed_states())
    other = list(skewed_states(seed=1))
    assert (medians(other[:4] + states) == medians(states)).all()


def test_slopes_of_any_size_may_repeat_each_other():
    rng = np.random.default_rng(0)
    slopes = 1e9 * rng.normal(size=(1, 400, 1)).repeat(2, 2)
    values = 3.0 + 1e-9 * slopes[:, :, :1] + 0.01 * rng.normal(size=(1, 400, 1))
    sums = _Sums(values[:, 0], 2)
    sums.add(values, slopes)
    # What the slopes owe is taken off: what is left has a deviation of .01, in 400 values.
    assert abs(float(sums.mean()[0, 0]) - 3.0) < 4 * 0.01 / 20 + 0.001
    assert abs(values.mean() - 3.0) > 0.01
