"""Gaussian EM: the truth from half of the values, and conditionals by the textbook."""

import pytest
import torch

from plmcmc.training.tables import gaussian as gaussian_module
from plmcmc.training.tables.gaussian import (
    Gaussian,
    completed_mean,
    conditionals,
    expectation_maximisation,
)

COLUMNS = 5
SOURCE = torch.Generator().manual_seed(0)
HALF = torch.randn(COLUMNS, 8, generator=SOURCE, dtype=torch.float64)
TRUTH = Gaussian(torch.arange(COLUMNS).double(), HALF @ HALF.T / 8)


def rows_with_holes(rows, missing=0.4):
    noise = torch.randn(rows, COLUMNS, generator=SOURCE, dtype=torch.float64)
    x = TRUTH.mean + noise @ torch.linalg.cholesky(TRUTH.covariance).mT
    observed = torch.rand(rows, COLUMNS, generator=SOURCE) >= missing
    return torch.where(observed, x, torch.nan), observed


def test_conditionals_are_the_textbook_s():
    x, observed = rows_with_holes(30)
    gain, root = conditionals(TRUTH, observed)
    filled = completed_mean(TRUTH, gain, torch.where(observed, x, 0.0))
    for row in range(30):
        o, m = observed[row], ~observed[row]
        regression = TRUTH.covariance[m][:, o] @ torch.linalg.inv(TRUTH.covariance[o][:, o])
        mean = TRUTH.mean[m] + regression @ (x[row, o] - TRUTH.mean[o])
        torch.testing.assert_close(filled[row, m], mean)
        spread = TRUTH.covariance[m][:, m] - regression @ TRUTH.covariance[o][:, m]
        torch.testing.assert_close((root[row] @ root[row].T)[m][:, m], spread)
        # What is seen stays, and has no spread.
        assert torch.equal(filled[row, o], x[row, o])
        assert not root[row][o].any()
        assert not root[row][:, o].any()


def test_em_finds_the_truth_from_rows_with_holes():
    rows = 20_000
    found = expectation_maximisation(*rows_with_holes(rows), ridge=0.0)
    spread = TRUTH.covariance.diagonal().sqrt()
    # At .4 missing a moment is worth at least a third of the rows.
    error = (3 / rows) ** 0.5
    assert float(((found.mean - TRUTH.mean) / spread).abs().max()) < 4.5 * error
    off = (found.covariance - TRUTH.covariance) / (spread[:, None] * spread)
    assert float(off.abs().max()) < 4.5 * 2**0.5 * error


@pytest.mark.parametrize("at_once", [1, 60, 10_000])
def test_one_step_is_the_textbook_s_in_parts_of_any_size(at_once, monkeypatch):
    monkeypatch.setattr(gaussian_module, "AT_ONCE", at_once)
    x, observed = rows_with_holes(40)
    observed[0], observed[1] = True, False
    x, weights = torch.where(observed, x.nan_to_num(1.0), torch.nan), torch.rand(40).double() + 0.5
    gain, root = conditionals(TRUTH, observed)
    filled = completed_mean(TRUTH, gain, torch.where(observed, x, 0.0))
    share = weights / weights.sum()
    mean = share @ filled
    covariance = (share[:, None] * (filled - mean)).mT @ (filled - mean)
    covariance = covariance + torch.tensordot(share, root @ root.mT, 1)
    options = {"weights": weights, "start": TRUTH, "ridge": 0.0, "steps": 1}
    found = expectation_maximisation(x, observed, **options)
    torch.testing.assert_close(found.mean, mean)
    torch.testing.assert_close(found.covariance, covariance)


def test_complete_rows_give_their_own_moments():
    x, _ = rows_with_holes(200, missing=0.0)
    found = expectation_maximisation(x, torch.ones_like(x, dtype=torch.bool), ridge=0.0)
    torch.testing.assert_close(found.mean, x.mean(0))
    torch.testing.assert_close(found.covariance, torch.cov(x.T, correction=0))


def test_a_ridge_divides_correlations_and_leaves_variances():
    x, _ = rows_with_holes(200, missing=0.0)
    found = expectation_maximisation(x, torch.ones_like(x, dtype=torch.bool), ridge=0.5)
    own = torch.cov(x.T, correction=0)
    wanted = torch.where(torch.eye(COLUMNS, dtype=torch.bool), own, own / 1.5)
    torch.testing.assert_close(found.covariance, wanted)


def test_weights_count_rows():
    x, observed = rows_with_holes(300)
    weights = torch.randint(0, 3, (300,), generator=SOURCE)
    twice = torch.repeat_interleave(torch.arange(300), weights)
    weighed = expectation_maximisation(x, observed, weights=weights)
    repeated = expectation_maximisation(x[twice], observed[twice])
    torch.testing.assert_close(weighed.covariance, repeated.covariance, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", [3, 40])
def test_few_rows_and_a_repeated_column_do_not_break_it(rows):
    x, observed = rows_with_holes(rows)
    x = torch.cat([x, x[:, :1]], 1)
    observed = torch.cat([observed, observed[:, :1]], 1)
    found = expectation_maximisation(x, observed)
    assert bool(torch.linalg.eigvalsh(found.covariance).min() > 0)


@pytest.mark.parametrize("columns", [1, 2, 12, 62, 63, 100])
def test_patterns_are_those_of_the_rows_in_order(columns):
    source = torch.Generator().manual_seed(columns)
    few = torch.rand(20, columns, generator=source) < 0.5
    observed = few[torch.randint(20, (200,), generator=source)]
    patterns, which = gaussian_module.patterns_of(observed)
    expected, places = torch.unique(observed, dim=0, return_inverse=True)
    assert torch.equal(patterns, expected)
    assert torch.equal(which, places)
    assert torch.equal(patterns[which], observed)


def test_a_column_of_which_nothing_is_seen_is_free():
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    observed = torch.ones(50, 2, dtype=torch.bool)
    observed[:, 1] = False
    found = expectation_maximisation(x, observed)
    assert float(found.covariance[1, 1]) == pytest.approx(1.0, abs=0.01)
