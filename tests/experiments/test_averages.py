"""Means over chains, followed as they go: against moments that are known."""

import numpy as np
import pytest
import torch

from plmcmc import condition
from plmcmc.chains import Unconditional
from plmcmc.experiments.efficiency.averages import follow
from plmcmc.posterior.methods import Gibbs, Metropolis, Pullback
from plmcmc.target import FlatAuxiliary, NormalAuxiliary
from toys import DEVIATIONS, Watched, correlated

X = np.array([[4.0, np.nan, np.nan]])
GIBBS = Gibbs(torch.tensor([1.0, 2.0, 3.0]), torch.full((3,), 2.0))


def followed(method, *, flow=None, **options):
    options = {"chains": 50, "passes": 40, "moments": 10, "seed": 0} | options
    start = Unconditional(projected=False)
    return follow(
        condition(flow or correlated(), X), method, start=start, progress=False, **options
    )


def moments():
    """Mean and covariance of the flow."""
    flow = correlated()
    factor = flow.factor().detach()
    return flow.shift.detach().numpy(), (factor @ factor.T).numpy()


def conditional_moments():
    """Mean and deviation of the two holes, in closed form."""
    mean, covariance = moments()
    slope = covariance[1:, 0] / covariance[0, 0]
    left = covariance[1:, 1:] - np.outer(slope, covariance[0, 1:])
    return mean[1:] + slope * (X[0, 0] - mean[0]), np.sqrt(np.diag(left))


class TestCounts:
    """Two passes for each PL-MCMC proposal, one for each Gibbs proposal."""

    @pytest.mark.parametrize(("method", "each"), [(Metropolis(), 2), (GIBBS, 1)])
    def test_of_passes(self, method, each):
        found = followed(method)
        assert found.passes.tolist() == list(range(0, 41, 4))
        assert (found.proposals * each).tolist() == found.passes.tolist()

    def test_are_what_the_flow_was_asked(self):
        flow = Watched(correlated())
        conditional = condition(flow, X)
        flow.forget()
        found = follow(
            conditional,
            Metropolis(),
            chains=5,
            passes=20,
            moments=5,
            seed=0,
            start=Unconditional(projected=False),
            progress=False,
        )
        # Beside proposals: the start is decoded, encoded, and evaluated, two passes more.
        assert sum(flow.calls.values()) == found.passes[-1] + 4
        assert set(flow.rows) == {5}

    def test_of_a_warm_up_come_first(self):
        found = followed(Pullback(), passes=500, least=3)
        assert found.passes[0] > 300
        assert found.proposals[0] == 0
        assert found.proposals[-1] >= 3

    def test_that_are_wanted_are_made_whatever_they_cost(self):
        assert followed(GIBBS, passes=1, least=7).proposals[-1] == 7

    def test_of_moments_do_not_grow_with_proposals(self):
        found = followed(GIBBS, passes=400, moments=10)
        assert found.means.shape == (11, 3)
        assert np.diff(found.passes).tolist() == [40] * 10


class TestMeans:
    """Of a Gaussian, whose conditional is known."""

    def test_begin_at_the_flow_s_own(self):
        """Before any proposal, holes are a sample's, and what is observed is put in."""
        found = followed(Metropolis(), chains=4000, passes=2)
        assert found.means[0, 0] == X[0, 0]
        mean, covariance = moments()
        off = (found.means[0] - mean) / np.sqrt(np.diag(covariance) / 4000)
        assert (np.abs(off[1:]) < DEVIATIONS).all()

    @pytest.mark.parametrize(
        "method",
        [Metropolis(perturb=0.5, auxiliary=NormalAuxiliary(1.0)), GIBBS],
        ids=["metropolis", "gibbs"],
    )
    def test_come_to_the_conditional_mean(self, method):
        chains = 2000
        found = followed(method, chains=chains, passes=400)
        mean, deviation = conditional_moments()
        off = np.abs(found.means[-1, 1:] - mean) / (deviation / chains**0.5)
        assert (off < DEVIATIONS).all()
        # The start's were another distribution's.
        before = np.abs(found.means[0, 1:] - mean) / (deviation / chains**0.5)
        assert before.max() > 2 * DEVIATIONS

    def test_are_the_same_for_the_same_seed_only(self):
        one, same, other = (followed(Metropolis(), seed=seed) for seed in (0, 0, 1))
        assert np.array_equal(one.means, same.means)
        assert not np.array_equal(one.means, other.means)


class TestAcceptance:
    def test_is_unknown_before_the_first_proposal(self):
        found = followed(Metropolis())
        assert np.isnan(found.acceptance[0])
        assert np.isfinite(found.acceptance[1:]).all()

    def test_of_tiny_steps_is_nearly_one_and_of_huge_ones_nearly_none(self):
        flat = FlatAuxiliary()
        tiny, huge = (followed(Metropolis(step, None, flat)).acceptance[1:] for step in (1e-6, 1e3))
        assert tiny.min() > 0.98
        assert huge.max() < 0.02


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", [Metropolis(0.5, 1.0, NormalAuxiliary(1.0)), GIBBS, Pullback()])
def test_chains_on_a_gpu_come_to_the_conditional_mean(method):
    """Where steps are recorded and replayed whole."""
    chains = 2000
    found = followed(method, flow=correlated().cuda(), chains=chains, passes=800, least=20)
    mean, deviation = conditional_moments()
    off = np.abs(found.means[-1, 1:] - mean) / (deviation / chains**0.5)
    assert (off < DEVIATIONS).all()
    assert 0 < found.acceptance[1:].mean() <= 1
