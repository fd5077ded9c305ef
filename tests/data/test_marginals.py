"""Normal scores: points, intervals for ties, and the way back."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from plmcmc.data import Marginal
from plmcmc.data.marginals import MOST

RNG = np.random.default_rng(0)


def test_distinct_values_are_points_at_normal_quantiles():
    values = RNG.normal(size=50)
    low, high = Marginal.of(values).regions(values)
    assert (low == high).all()
    ranks = values.argsort().argsort()
    np.testing.assert_allclose(low, ndtri((ranks + 0.5) / 50))


def test_tied_values_are_intervals_that_fill_their_share():
    values = np.array([0.0] * 6 + [1.0] * 3 + [2.5])
    low, high = Marginal.of(values).regions(np.array([0.0, 1.0, 2.5]))
    assert low[0] == -np.inf
    np.testing.assert_allclose(high[0], ndtri(0.6))
    np.testing.assert_allclose([low[1], high[1]], ndtri([0.6, 0.9]))
    np.testing.assert_allclose([low[2], high[2]], ndtri(0.95))


def test_a_last_tie_has_no_upper_end():
    low, high = Marginal.of(np.array([0.0, 1.0, 1.0])).regions(np.array([1.0]))
    np.testing.assert_allclose(low, ndtri(1 / 3))
    assert high[0] == np.inf


def test_what_is_missing_may_be_anywhere():
    low, high = Marginal.of(np.array([0.0, 1.0])).regions(np.array([np.nan]))
    assert (low, high) == (-np.inf, np.inf)


@pytest.mark.parametrize("tied", [False, True])
def test_values_come_back_from_anywhere_in_their_region(tied):
    values = RNG.integers(0, 7, 60).astype(float) if tied else RNG.normal(size=60)
    marginal = Marginal.of(values)
    low, high = marginal.regions(values)
    share = RNG.random(60)
    inside = np.clip(low, -9, 9) * (1 - share) + np.clip(high, -9, 9) * share
    np.testing.assert_allclose(marginal.values(inside), values, rtol=0, atol=1e-12)


def test_scores_beyond_all_stay_within_what_was_seen():
    for values in (RNG.normal(size=20), np.array([0.0, 0.0, 3.0, 3.0]), np.array([4.0, 4.0])):
        found = Marginal.of(values).values(np.array([-20.0, 20.0]))
        assert found.tolist() == [values.min(), values.max()]


def test_new_values_lie_between_their_neighbours():
    marginal = Marginal.of(np.array([0.0, 1.0, 2.0, 2.0, 4.0]))
    low, high = marginal.regions(np.array([0.5, 1.5, 3.0, -10.0, 10.0]))
    assert (low == high).all()
    np.testing.assert_allclose(marginal.values(low), [0.5, 1.5, 3.0, 0.0, 4.0])
    # Between 1, which is a point, and 2, which is tied, up to the tie's lower end.
    np.testing.assert_allclose(low[1], (ndtri(0.3) + ndtri(0.4)) / 2)


def test_a_column_of_one_value():
    marginal = Marginal.of(np.full(5, 7.0))
    assert np.isinf(marginal.regions(np.array([7.0]))).all()
    assert (marginal.values(RNG.normal(size=4)) == 7.0).all()


def test_draws_of_scores_have_the_column_s_own_distribution():
    values = np.array([0.0] * 60 + [1.0] * 30 + [5.0] * 10)
    drawn = Marginal.of(values).values(RNG.normal(size=20_000))
    for atom, share in ((0.0, 0.6), (1.0, 0.3), (5.0, 0.1)):
        assert abs((drawn == atom).mean() - share) < 4.5 * np.sqrt(share * (1 - share) / 20_000)


def test_of_very_many_values_some_are_remembered_and_all_have_scores():
    rng = np.random.default_rng(1)
    values = rng.normal(size=5 * MOST)
    values[: 2 * MOST] = 0.25
    marginal = Marginal.of(values)
    assert MOST <= len(marginal.atoms) <= MOST + 1
    assert marginal.atoms[[0, -1]].tolist() == [values.min(), values.max()]
    low, high = marginal.regions(values)
    # The tie has its share, and everybody else the score of their rank, to the next remembered one.
    tied = values == 0.25
    below = (values < 0.25).mean()
    np.testing.assert_allclose(low[tied], ndtri(below), atol=1e-12)
    np.testing.assert_allclose(high[tied], ndtri(below + 0.4), atol=1e-12)
    ranks = rankdata(values)[~tied]
    assert (low[~tied] == high[~tied]).all()
    off = ndtr(low[~tied]) - (ranks - 0.5) / len(values)
    assert np.abs(off).max() < 5 / len(values)
    np.testing.assert_allclose(marginal.values(low)[~tied], values[~tied], atol=1e-9)
