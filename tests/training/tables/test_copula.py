"""The Gaussian copula: of what is known by intervals only, correlations are found all the same."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from plmcmc.data import Regions
from plmcmc.training.tables.copula import NARROW, _spread_out, copula
from plmcmc.training.tables.gaussian import Gaussian

ROWS = 3000
TRUTH = np.array([[1.0, 0.7, 0.5], [0.7, 1.0, 0.6], [0.5, 0.6, 1.0]])


def regions(edges, missing=0.2, seed=0):
    """Return scores of which the last column is known by its bin only."""
    rng = np.random.default_rng(seed)
    scores = rng.multivariate_normal(np.zeros(3), TRUTH, ROWS)
    low, high = scores.copy(), scores.copy()
    bins = np.digitize(scores[:, 2], edges)
    ends = np.array([-np.inf, *edges, np.inf])
    low[:, 2], high[:, 2] = ends[bins], ends[bins + 1]
    holes = rng.random(scores.shape) < missing
    return Regions(np.where(holes, -np.inf, low), np.where(holes, np.inf, high))


def correlation(gaussian):
    covariance = gaussian.covariance.numpy()
    scale = np.sqrt(np.diag(covariance))
    return covariance / scale / scale[:, None]


@pytest.mark.parametrize("edges", [[0.0], [-1.0, 0.3], norm.ppf(np.linspace(0.01, 0.99, 50))])
def test_correlations_are_found_whether_intervals_are_wide_or_narrow(edges):
    found = copula(regions(edges)).gaussian
    # A correlation of 3,000 rows has a deviation of .02, of a flag about .03. The scale of a flag's
    # score is anything: only its sign is seen.
    np.testing.assert_allclose(correlation(found), TRUTH, atol=0.09)
    assert np.abs(found.mean.numpy()).max() < 0.08


def test_middles_alone_would_pull_a_flag_s_correlations_to_nothing(monkeypatch):
    monkeypatch.setattr("plmcmc.training.tables.copula.WIDE", 2.0)
    found = correlation(copula(regions([0.0])).gaussian)
    assert found[0, 2] < 0.85 * TRUTH[0, 2]


def test_scores_stay_within_what_is_known():
    known = regions([-0.5, 0.5])
    found = copula(known)
    seen = found.observed.numpy()
    for scores in found.scores:
        inside = (scores.numpy() >= known.low - 1e-9) & (scores.numpy() <= known.high + 1e-9)
        assert inside[seen].all()


def test_a_column_that_all_but_collapsed_is_stretched_and_keeps_its_correlations():
    scale = torch.tensor([1.0, 1e-3, 0.9]).double()
    found = Gaussian(torch.ones(3).double(), torch.as_tensor(TRUTH) * scale * scale[:, None])
    spread = _spread_out(found)
    torch.testing.assert_close(spread.covariance.diagonal()[1].item(), NARROW)
    np.testing.assert_allclose(spread.covariance[::2, ::2], found.covariance[::2, ::2])
    np.testing.assert_allclose(correlation(spread), TRUTH)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_level_that_few_rows_tell_of_keeps_its_mass(seed):
    rng = np.random.default_rng(seed)
    low, high = np.full((2, 4000, 2), [[[-np.inf]], [[np.inf]]])
    low[:, 0] = high[:, 0] = rng.normal(size=4000)
    # Three hundredths say yes, of the rows that say anything.
    low[:6, 1] = high[6:200, 1] = threshold = norm.ppf(0.97)
    mean, covariance = copula(Regions(low, high), seed).gaussian
    mass = norm.sf((threshold - float(mean[1])) / float(covariance[1, 1]) ** 0.5)
    # Nearer than what 200 rows leave uncertain.
    assert mass == pytest.approx(0.03, abs=(0.03 * 0.97 / 200) ** 0.5)
