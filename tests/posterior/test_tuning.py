"""Settings that are not given are tuned, frozen, and leave the draws exact."""

import numpy as np
import pytest
import torch

import plmcmc
from exact import FLOWS
from plmcmc.adaptation import auxiliary
from plmcmc.data import Incomplete
from plmcmc.flows import NICE, BrokenFlow, Linear, differentiable
from plmcmc.kernels import Metropolis, Perturb
from plmcmc.posterior import methods
from plmcmc.posterior.methods.pullback import DerivativeWarning
from plmcmc.posterior.problem import problem_of
from plmcmc.rng import Streams
from plmcmc.target import FlatAuxiliary, NormalAuxiliary, ProjectedLatentTarget
from toys import Handing, quiet

COVARIANCE = torch.tensor([[1.0, 0.8, 0.3], [0.8, 2.0, 0.5], [0.3, 0.5, 1.5]]).double()
X = np.array([[1.2, np.nan, 0.4], [np.nan, np.nan, 2.5], [0.1, 0.2, np.nan]])
# Columns in other units: a tuned step or scale must not be told of them.
UNITS = np.array([1.0, 1e6, 1e-6])


def linear(units=UNITS):
    scale = torch.as_tensor(units)
    return Linear.of_moments(torch.zeros(3), COVARIANCE * scale[:, None] * scale).double()


TUNED = {
    "pcn": (methods.CrankNicolson(), 800),
    "metropolis": (methods.Metropolis(None, None, None), 800),
    "mala": (methods.Langevin(), 300),
    "hmc": (methods.Hamiltonian(), 60),
    "data-hmc": (methods.DataHamiltonian(), 60),
    "data-mala": (methods.DataLangevin(), 300),
    "data-metropolis": (methods.DataMetropolis(), 800),
}


@pytest.mark.parametrize("name", TUNED)
def test_steps_are_tuned_to_the_acceptance_wanted(name):
    method, draws = TUNED[name]
    with quiet():
        found = plmcmc.condition(linear(), X * UNITS).sample(
            draws, chains=16, method=method, random_state=0
        )
    assert found.acceptance.mean(0).min() > method.accepted - 0.1
    # The largest angle, and share of noise, may still be accepted more often.
    if name not in ("hmc", "data-hmc", "pcn"):
        assert found.acceptance.mean(0).max() < method.accepted + 0.15


@pytest.mark.parametrize("name", [*TUNED, "elliptical"])
def test_moments_are_right_after_tuning(name):
    method, draws = TUNED.get(name, (methods.Elliptical(), 200))
    with quiet():
        found = plmcmc.condition(linear(), X * UNITS).sample(
            draws, chains=16, method=method, random_state=1
        )
    factor = COVARIANCE.numpy()
    for row, x in enumerate(X):
        seen = ~np.isnan(x)
        gain = factor[np.ix_(~seen, seen)] @ np.linalg.inv(factor[np.ix_(seen, seen)])
        spread = np.sqrt(np.diag(factor[np.ix_(~seen, ~seen)] - gain @ factor[seen][:, ~seen]))
        mean, worth = gain @ x[seen], found.ess()[row][~seen]
        z = (found.mean()[row][~seen] / UNITS[~seen] - mean) / spread * np.sqrt(worth)
        assert np.abs(z).max() < 4.5
        ratio = found.std()[row][~seen] / UNITS[~seen] / spread
        assert np.abs(ratio - 1).max() < 6 / np.sqrt(worth.min())


def overturned(target, y, chains):
    """Return which share of a long walk's rejections a flat auxiliary would overturn."""
    streams = Streams.of_rows(1, "walk", len(y) // chains, chains=chains)
    flat = ProjectedLatentTarget(target.flow, target.data, FlatAuxiliary())
    kernel, won, lost = Metropolis(target, Perturb(0.5)), 0.0, 0.0
    state = kernel.init(y)
    for _ in range(200):
        proposed, log_ratio = kernel.propose(state, streams)
        log_flat = flat(proposed.position).log_density - flat(state.position).log_density
        ours, theirs = (r.clamp(max=0).exp() for r in (log_ratio, log_flat))
        won += float((theirs - ours).clamp(min=0).sum())
        lost += float((1 - ours).sum())
        state, _ = kernel.step(state, streams)
    return won / lost


def test_the_chosen_auxiliary_overturns_the_share_wanted_and_others_do_not():
    flow, chains = FLOWS["linear"](), 32
    generator = torch.Generator().manual_seed(0)
    y = flow.to_data(torch.randn(64, 5, generator=generator).double())[0].detach()
    seen = torch.tensor([True, False, True, True, False]).expand(64, -1)
    data = Incomplete(torch.where(seen, y, 0.0), seen).repeat(chains)
    start = y.repeat_interleave(chains, 0)
    streams = Streams.of_rows(0, "warmup", 64, chains=chains)
    with torch.no_grad():
        chosen, passes = auxiliary.chosen_auxiliary(
            flow, data, start, torch.ones(5), streams, chains=chains, proposals=200
        )
        assert passes == 3 * 200
        share = {
            factor: overturned(
                ProjectedLatentTarget(flow, data, NormalAuxiliary(factor * chosen.scale)),
                start,
                chains,
            )
            for factor in (0.2, 1.0, 5.0)
        }
    # This walk's step is not the one that was tuned with the scale.
    assert abs(share[1.0] - auxiliary.OVERTURNED) < 0.15
    assert share[0.2] > auxiliary.OVERTURNED + 0.2
    assert share[5.0] < auxiliary.OVERTURNED - 0.2


class Numbed(Handing):
    """A flow that hides its derivatives, as one outside torch does."""

    def to_latent(self, x):
        with torch.no_grad():
            return self.flow.to_latent(x.detach())

    def to_data(self, z):
        with torch.no_grad():
            return self.flow.to_data(z.detach())

    def latent_log_prob(self, z):
        return self.flow.latent_log_prob(z.detach())


def test_without_derivatives_auto_falls_back_and_says_so():
    posterior = plmcmc.condition(Numbed(linear(np.ones(3))), X)
    with pytest.warns(DerivativeWarning, match="using elliptical slice sampling"):
        draws = posterior.sample(400, chains=8, thin=2, random_state=0)
    expected = COVARIANCE[0, 1] * X[0, 0]  # rough: the third column says little
    assert abs(draws.mean()[0, 1] - float(expected)) < 0.5
    assert draws.acceptance[:, 0].mean() > 0.99


@pytest.mark.parametrize("name", ["pullback", "mala", "hmc", "data-hmc", "data-mala", "data-ula"])
def test_without_derivatives_methods_that_need_them_are_refused(name):
    posterior = plmcmc.condition(Numbed(linear(np.ones(3))), X)
    with pytest.raises(BrokenFlow, match="no derivatives"):
        posterior.sample(method=name)


def test_without_derivatives_there_is_no_evidence():
    with pytest.raises(BrokenFlow, match="no derivatives"):
        plmcmc.condition(Numbed(linear(np.ones(3))), X).log_evidence()


class HalfNumbed(Handing):
    """A flow whose latents can be differentiated, and their density cannot."""

    def latent_log_prob(self, z):
        return self.flow.latent_log_prob(z.detach())


def test_half_a_derivative_is_none():
    flow, x = linear(np.ones(3)), torch.ones(2, 3).double()
    assert differentiable(flow, x)
    assert not differentiable(HalfNumbed(flow), x)


@pytest.mark.parametrize("latent", ["normal", "logistic"])
def test_latent_trajectories_are_in_units_of_the_latents(latent):
    flow = NICE(3, couplings=2, width=8, latent=latent, random_state=0).double()
    with quiet():
        found = plmcmc.condition(flow, np.full((2, 3), np.nan)).sample(
            60, chains=32, method=methods.Hamiltonian(step=0.25, turns=6), random_state=0
        )
    # Nothing is seen: a quarter turn of a base that is nearly what the units say.
    assert found.acceptance.mean() > 0.97


def test_units_do_not_matter_to_the_auxiliary():
    scales = []
    for units in (np.ones(3), UNITS):
        problem = problem_of(linear(units), X * units)
        batch = problem.batch(torch.arange(3), 8)
        streams = Streams.of_rows(0, "warmup", 3, chains=8)
        y = torch.as_tensor(np.nan_to_num(X) * units).repeat_interleave(8, 0)
        with torch.no_grad():
            target, _ = methods.Elliptical().target(batch, y, 100, streams)
        scales.append(target.auxiliary.scale / torch.as_tensor(units))
    torch.testing.assert_close(scales[0], scales[1], rtol=0.05, atol=0)


def test_fresh_draws_do_not_tune_the_small_steps():
    # Nothing seen, latents normal: every fresh draw is accepted, and says nothing of small steps.
    with quiet():
        found = plmcmc.condition(linear(), np.full((2, 3), np.nan)).sample(
            300, chains=32, method=methods.Metropolis(None, 1.0, None), random_state=0
        )
    assert abs(found.acceptance.mean() - (1 + 0.234) / 2) < 0.08


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: methods.CrankNicolson(step=1.5), r"step must be in \(0, 1\]; got 1.5"),
        (lambda: methods.Langevin(step=0.0), "step must be positive, or None to tune it; got 0.0"),
        (lambda: methods.Metropolis(perturb=-1.0), "got -1.0"),
        (lambda: methods.Hamiltonian(turns=0), "turns must be at least 1"),
        (lambda: methods.DataHamiltonian(turns=2.5), "turns must be a whole number of at least 1"),
        (lambda: methods.DataHamiltonian(tuning=0), "tuning must be a whole number of at least 1"),
        (lambda: methods.DataHamiltonian(step=float("inf")), "step must be positive"),
        (
            lambda: methods.DataLangevin(adjusted=False),
            "no acceptance rate to tune the step by: pass a step",
        ),
    ],
)
def test_settings_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
