"""Slopes of scores by values: densities of columns with ties, and beyond what was seen."""

import numpy as np
from scipy.stats import norm

from plmcmc.data import Marginal
from plmcmc.data.schema import Numbers


def mass(marginal, low, high, count=20_001):
    """Return the integral of a standard normal's density of scores, by values."""
    grid = np.linspace(low, high, count)
    inside, _ = marginal.regions(grid)
    finite = np.isfinite(inside)
    density = np.where(finite, norm.pdf(np.where(finite, inside, 0.0)), 0.0)
    return np.trapezoid(density * np.exp(marginal.log_slope(grid)), grid)


def test_values_beside_a_tie_have_what_the_tie_leaves():
    rng = np.random.default_rng(0)
    score = rng.normal(size=2000)
    marginal = Marginal.of(np.where(score > 0.3, np.exp(score), 0.0))
    # 62% are tied at 0; slopes across that would count part of it twice.
    assert abs(mass(marginal, 1e-9, 200.0) - norm.sf(0.3)) < 0.03


def test_a_tie_in_the_middle():
    rng = np.random.default_rng(1)
    values = np.where(rng.random(2000) < 0.4, 0.0, rng.normal(size=2000))
    marginal = Marginal.of(values)
    both = mass(marginal, -20.0, -1e-9) + mass(marginal, 1e-9, 20.0)
    assert abs(both - 0.6) < 0.03


def test_beyond_all_values_seen_densities_fall():
    marginal = Marginal.of(np.random.default_rng(2).normal(size=500))
    assert abs(mass(marginal, -30.0, 30.0) - 1.0) < 0.05
    top = marginal.atoms[-1]
    heights = marginal.log_slope(np.array([top, top + 1, top + 10, 1e6]))
    assert (np.diff(heights) < -1).all()
    below = marginal.log_slope(np.array([marginal.atoms[0], marginal.atoms[0] - 10]))
    assert below[1] < below[0] - 10


def test_an_integer_never_seen_counts_as_the_nearest():
    column = Numbers("k", "integer", Marginal.of(np.array([0.0, 1, 1, 5, 5, 5]), discrete=True))
    seen, unseen = column.regions(np.array([1.0, 5, 5])), column.regions(np.array([2.0, 4, 9]))
    np.testing.assert_array_equal(unseen.low, seen.low)
    np.testing.assert_array_equal(unseen.high, seen.high)
    assert (column.log_slope(np.array([2.0, 4, 9])) == 0).all()


def test_values_between_two_ties_that_touch_have_some_density():
    marginal = Marginal.of(np.repeat([1.0, 2.0, 4.0], 10))
    assert np.isfinite(marginal.log_slope(np.array([1.5, 3.0]))).all()
