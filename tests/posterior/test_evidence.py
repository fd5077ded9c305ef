"""`log p(x_O)` against answers known otherwise."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

import plmcmc
from exact import shaken
from plmcmc.data import DataError
from plmcmc.flows import log_prob
from plmcmc.flows.mixture import Components, GaussianMixture
from plmcmc.posterior import EvidenceWarning
from toys import Handing

STANDARD_ERRORS = 4.5


def gaussian():
    source = torch.Generator().manual_seed(0)
    half = torch.randn(5, 8, generator=source).double()
    covariance = half @ half.T / 8
    mean = torch.arange(5).double()
    return mean, covariance, plmcmc.Linear.of_moments(mean, covariance)


def test_a_linear_flow_s_evidence_is_a_gaussian_s_marginal():
    mean, covariance, flow = gaussian()
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(mean.numpy(), covariance.numpy(), 20)
    observed = rng.random(x.shape) < 0.5
    observed[0], observed[1] = True, False
    found = plmcmc.condition(flow, x, observed).log_evidence(random_state=0)
    expected = np.array([marginal(mean, covariance, *row) for row in zip(x, observed, strict=True)])
    error = np.abs(found.log_evidence - expected)
    assert found.standard_error[0] == 0
    assert error[0] < 1e-9
    # Nothing seen: the evidence is one.
    assert expected[1] == 0
    assert (error <= STANDARD_ERRORS * found.standard_error + 1e-9).all()
    assert found.standard_error.max() < 0.05


def marginal(mean, covariance, row, seen):
    places = np.flatnonzero(seen)
    if len(places) == 0:
        return 0.0
    block = covariance.numpy()[np.ix_(places, places)]
    return multivariate_normal.logpdf(row[places], mean.numpy()[places], block)


def test_a_nonlinear_flow_s_evidence_is_its_integral():
    flow = shaken(plmcmc.RealNVP(2, couplings=4, width=16, random_state=1), 0.9, seed=6)
    seen = np.array([-0.5, 0.7, 1.5])
    grid = np.linspace(-15, 15, 20001)
    expected = []
    for value in seen:
        rows = torch.tensor(np.stack([np.full_like(grid, value), grid], 1))
        with torch.no_grad():
            density = log_prob(flow, rows).exp().numpy()
        expected.append(np.log(np.trapezoid(density, grid)))
    x = np.stack([seen, np.full(3, np.nan)], 1)
    found = plmcmc.condition(flow, x).log_evidence(particles=200, random_state=0)
    error = np.abs(found.log_evidence - np.array(expected))
    assert (error <= STANDARD_ERRORS * found.standard_error).all()
    assert found.standard_error.max() < 0.2


def test_the_comparison_convicts_a_wrong_volume():
    mean, covariance, flow = gaussian()
    x = np.full((3, 5), np.nan)
    x[:, 0] = [-1.0, 0.0, 1.0]
    found = plmcmc.condition(flow, x).log_evidence(random_state=0)
    wrong = [marginal(mean, 1.5 * covariance, row, ~np.isnan(row)) for row in x]
    error = np.abs(found.log_evidence - np.array(wrong))
    assert (error > STANDARD_ERRORS * found.standard_error + 1e-9).any()


def test_the_same_seed_gives_the_same_evidence():
    _, _, flow = gaussian()
    posterior = plmcmc.condition(flow, [[0.0, np.nan, 2.0, np.nan, 4.0]])
    one, two, other = (posterior.log_evidence(8, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.log_evidence, two.log_evidence)
    assert not np.array_equal(one.log_evidence, other.log_evidence)


@pytest.mark.parametrize(("particles", "stages"), [(1, 10), (10, 0)])
def test_too_little_is_refused(particles, stages):
    _, _, flow = gaussian()
    with pytest.raises(ValueError, match="must be at least"):
        plmcmc.condition(flow, [[0.0, np.nan, 2.0, np.nan, 4.0]]).log_evidence(
            particles, stages=stages
        )


def test_the_conditional_density_of_a_gaussian():
    mean, covariance, flow = gaussian()
    x = np.array([[0.5, 1.0, 1.5, 3.5, 4.5]])
    seen = np.array([[True, False, True, False, True]])
    posterior = plmcmc.condition(flow, x, seen)
    expected = multivariate_normal.logpdf(x[0], mean.numpy(), covariance.numpy())
    expected -= marginal(mean, covariance, x[0], seen[0])
    found = posterior.log_prob(x, random_state=0)
    error = posterior.log_evidence(random_state=0).standard_error
    assert abs(found[0] - expected) <= STANDARD_ERRORS * error[0] + 1e-9
    with pytest.raises(DataError, match="missing values at row 0"):
        posterior.log_prob(np.where(seen, x, np.nan))
    with pytest.raises(DataError, match="shape of the data"):
        posterior.log_prob(x[:, :4])


def two_modes(holes, weight):
    """A mixture of two Gaussians that lie far apart in all columns but the first."""
    mean = torch.tensor([[0.0] + [-3.0] * holes, [0.0] + [3.0] * holes])
    weights, eye = torch.tensor([1 - weight, weight]), torch.eye(holes + 1)
    return GaussianMixture.of([Components(weights, mean, 0.25 * eye.repeat(2, 1, 1))]).double()


def test_two_modes_count_both():
    x = np.full((40, 2), np.nan)
    x[:, 0] = 0.3
    found = plmcmc.condition(two_modes(1, 0.2), x).log_evidence(random_state=0)
    error = found.log_evidence - norm.logpdf(0.3, 0, 0.5)
    # Where walkers all start at the larger mode, the smaller one is left out, and not in the error.
    assert (np.abs(error) <= STANDARD_ERRORS * found.standard_error).mean() > 0.85


class Fenced(Handing):
    """A flow whose density is NaN outside the unit cube."""

    def to_latent(self, x):
        z, log_det = self.flow.to_latent(x)
        return z, torch.where((x.abs() <= 1).all(1), log_det, torch.nan)


def test_walkers_beyond_the_support_weigh_nothing():
    flow = Fenced(plmcmc.Linear.of_moments(torch.zeros(2), 0.25 * torch.eye(2)).double())
    posterior = plmcmc.condition(flow, [[0.0, np.nan]], check=False)
    found = posterior.log_evidence(particles=256, random_state=0)
    inside = norm.cdf(2) - norm.cdf(-2)
    expected = norm.logpdf(0, 0, 0.5) + np.log(inside)
    error = abs(found.log_evidence[0] - expected)
    assert error <= STANDARD_ERRORS * found.standard_error[0]
    assert found.standard_error[0] < 0.05


def test_evidence_of_few_walkers_is_said_to_be_so():
    posterior = plmcmc.condition(two_modes(8, 0.3), np.array([[0.4] + [np.nan] * 8]))
    with pytest.warns(EvidenceWarning, match=r"row 0: .* fewer than 10 of 64 walkers"):
        posterior.log_evidence(stages=1, random_state=0)
    with pytest.warns(EvidenceWarning) as told:
        posterior.log_prob(np.zeros((1, 9)), stages=1, random_state=0)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gaussian_one = plmcmc.condition(gaussian()[2], [[0.0, np.nan, 2.0, np.nan, 4.0]])
        gaussian_one.log_evidence(random_state=0)
