"""Gaussians that few rows may have come from: as far apart as they should be."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from plmcmc.training.tables.copula import Copula
from plmcmc.training.tables.gaussian import Gaussian, expectation_maximisation
from plmcmc.training.tables.posterior import _given, drawn_gaussians, few_rows

ROWS, COLUMNS, DRAWS, REPLICATES = 15, 3, 40, 400


def below(gaussian, row):
    """Return the probability of less than a row's last value, given the others."""
    mean, covariance = (part.numpy() for part in gaussian)
    gain = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
    spread = covariance[-1, -1] - gain @ covariance[:-1, -1]
    expected = mean[-1] + gain @ (row[:-1] - mean[:-1])
    return norm.cdf((row[-1] - expected) / spread**0.5)


def covered(gaussians_of):
    """Return how often one more row's last value lies in its 90% interval."""
    inside = []
    for replicate in range(REPLICATES):
        rng = np.random.default_rng(replicate)
        root = rng.normal(size=(COLUMNS, COLUMNS))
        rows = rng.normal(size=(ROWS + 1, COLUMNS)) @ root
        told = np.mean([below(own, rows[-1]) for own in gaussians_of(rows[:-1], rng)])
        inside.append(0.05 < told < 0.95)
    return np.mean(inside)


# Three standard errors of a share of .9.
ERROR = 3 * (0.9 * 0.1 / REPLICATES) ** 0.5


def test_intervals_of_drawn_gaussians_cover():
    found = covered(lambda rows, rng: [_given(rows, 0.0, rng) for _ in range(DRAWS)])
    assert found == pytest.approx(0.9, abs=ERROR)


def test_intervals_of_the_one_that_fits_best_do_not():
    found = covered(
        lambda rows, rng: [Gaussian(*map(torch.as_tensor, (rows.mean(0), np.cov(rows.T, ddof=0))))]
    )
    assert found < 0.9 - ERROR


def test_a_column_that_is_mostly_missing_is_less_certain():
    rng = np.random.default_rng(0)
    first = rng.normal(size=60)
    x = torch.as_tensor(np.stack([first, 0.8 * first + 0.6 * rng.normal(size=60)], 1))
    seen = torch.ones_like(x, dtype=torch.bool)
    seen[20:, 1] = False
    found = Copula(expectation_maximisation(x, seen), [torch.where(seen, x, 0.0)], seen)
    drawn = drawn_gaussians(found, 300, seed=0, ridge=1e-3)
    covariance = found.gaussian.covariance
    gain = covariance[0, 1] / covariance[0, 0]
    rest = covariance[1, 1] - gain * covariance[0, 1]
    # A regression on 20 rows; 20/17 is owed to its three parameters. Of 300 draws, hardly
    # dependent, a deviation has an error of 4% or so.
    known = x[:20, 0]
    off = (x[:, 0].mean() - known.mean()) ** 2 / (known - known.mean()).square().sum()
    wanted = (rest * 20 / 17 * (1 / 20 + off) + gain**2 * covariance[0, 0] / 60) ** 0.5
    assert float(drawn.mean[:, 1].std() / wanted) == pytest.approx(1.0, abs=0.16)
    assert float(drawn.mean[:, 0].std()) == pytest.approx(float(covariance[0, 0] / 60) ** 0.5, 0.16)
    again = drawn_gaussians(found, 300, seed=0, ridge=1e-3)
    assert torch.equal(again.covariance, drawn.covariance)


def test_as_few_rows_as_there_may_be():
    x = torch.as_tensor(np.random.default_rng(0).normal(size=(12, 2)))
    seen = torch.ones_like(x, dtype=torch.bool)
    seen[3] = False
    found = Copula(expectation_maximisation(x, seen, ridge=3.0), [torch.where(seen, x, 0.0)], seen)
    drawn = drawn_gaussians(found, 20, seed=0, ridge=3.0)
    assert (torch.linalg.eigvalsh(drawn.covariance) > 0).all()
    middle = drawn.covariance.diagonal(dim1=1, dim2=2).median(0).values
    assert ((middle / found.gaussian.covariance.diagonal()).log2().abs() < 1).all()


def test_which_tables_have_few_rows():
    assert few_rows(399, 4)
    assert not few_rows(400, 4)
    assert not few_rows(23, 4)
    # Hundreds of columns would take minutes.
    assert not few_rows(6000, 300)
