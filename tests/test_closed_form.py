"""Whole runs against answers known otherwise: a Gaussian's conditional, and quadrature."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

import plmcmc
from exact import shaken
from plmcmc.flows import log_prob
from plmcmc.posterior import methods
from plmcmc.target import NormalAuxiliary

FALSE_ALARM = 1e-4
WIDE = NormalAuxiliary(1.0)
METHODS = {
    "pullback": (methods.Pullback(), 3),
    "metropolis": (methods.Metropolis(0.5, 1.0, WIDE), 40),
    "pcn": (methods.CrankNicolson(0.5, 1.0, WIDE), 40),
    "elliptical": (methods.Elliptical(1.0, WIDE), 12),
    "mala": (methods.Langevin(0.7, WIDE), 30),
    "hmc": (methods.Hamiltonian(0.3, 5, WIDE), 8),
    "data-hmc": (methods.DataHamiltonian(0.3, 5), 8),
    "data-mala": (methods.DataLangevin(0.7), 30),
    "data-metropolis": (methods.DataMetropolis(0.8), 40),
    "gibbs": (methods.Gibbs(), 40),
}


def gaussian():
    covariance = torch.tensor([[1.0, 0.6, 0.3], [0.6, 1.5, -0.4], [0.3, -0.4, 0.8]]).double()
    mean = torch.tensor([0.5, -1.0, 0.2]).double()
    return mean, covariance, plmcmc.Linear.of_moments(mean, covariance)


@pytest.mark.parametrize("name", METHODS)
def test_linear_flow_matches_the_closed_form_conditional(name):
    mean, covariance, flow = gaussian()
    seen, holes = [2], [0, 1]
    x = np.array([[np.nan, np.nan, 1.1]])
    method, thin = METHODS[name]
    # Many short chains, one draw each from far enough: independent, so that thresholds are exact.
    chains = 2000
    with pytest.warns(plmcmc.ConvergenceWarning, match="needs 4 draws"):
        draws = plmcmc.condition(flow, x).sample(
            1, chains=chains, warmup=8 * thin, method=method, random_state=0
        )
    found = draws.values[:, 0, 0, holes]
    gain = covariance[holes][:, seen] @ torch.linalg.inv(covariance[seen][:, seen])
    expected = (mean[holes] + gain @ (torch.tensor([1.1]).double() - mean[seen])).numpy()
    spread = (covariance[holes][:, holes] - gain @ covariance[seen][:, holes]).numpy()
    tail = norm.isf(FALSE_ALARM / 2 / 5)
    error = (found.mean(0) - expected) / np.sqrt(np.diag(spread) / chains)
    assert np.abs(error).max() < tail
    sample_covariance = np.cov(found.T)
    for i in range(2):
        for j in range(i + 1):
            # Wishart: variance of a sample covariance of normals.
            deviation = np.sqrt((spread[i, i] * spread[j, j] + spread[i, j] ** 2) / chains)
            assert abs(sample_covariance[i, j] - spread[i, j]) < tail * deviation
    for i in range(2):
        assert kstest(found[:, i], norm(expected[i], spread[i, i] ** 0.5).cdf).pvalue > FALSE_ALARM


def test_the_comparison_convicts_a_chain_that_ignores_what_was_seen():
    mean, covariance, _ = gaussian()
    unconditional = np.random.default_rng(0).multivariate_normal(
        mean.numpy(), covariance.numpy(), size=2000
    )
    gain = covariance[0, 2] / covariance[2, 2]
    expected = float(mean[0] + gain * (1.1 - mean[2]))
    spread = float(covariance[0, 0] - gain * covariance[2, 0])
    assert kstest(unconditional[:, 0], norm(expected, spread**0.5).cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("name", METHODS)
def test_a_nonlinear_flow_in_two_dimensions_matches_quadrature(name):
    flow = shaken(plmcmc.RealNVP(2, couplings=4, width=16, random_state=1), 0.9, seed=6)
    seen = 0.7
    grid = np.linspace(-12, 12, 6001)
    rows = torch.tensor(np.stack([np.full_like(grid, seen), grid], 1))
    with torch.no_grad():
        density = log_prob(flow, rows).exp().numpy()
    cdf = np.cumsum(density) / density.sum()
    assert density[0] / density.max() < 1e-8
    assert density[-1] / density.max() < 1e-8
    method, thin = METHODS[name]
    with pytest.warns(plmcmc.ConvergenceWarning, match="needs 4 draws"):
        draws = plmcmc.condition(flow, [[seen, np.nan]]).sample(
            1, chains=2000, warmup=10 * thin, method=method, random_state=0
        )
    found = draws.values[:, 0, 0, 1]
    assert kstest(found, lambda v: np.interp(v, grid, cdf)).pvalue > FALSE_ALARM
    # The marginal is another law: this comparison could have failed.
    with torch.no_grad():
        source = torch.Generator().manual_seed(0)
        marginal = plmcmc.flows.sample(flow, 2000, source)[:, 1].numpy()
    assert kstest(marginal, lambda v: np.interp(v, grid, cdf)).pvalue < FALSE_ALARM
