"""The default method as a whole: modes, chunks of uneven blocks, devices, bases of any kind."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch.distributions import AffineTransform

import plmcmc
from exact import shaken
from plmcmc.adaptation import warmup
from plmcmc.adaptation.pool import MOST
from plmcmc.flows import BrokenFlow
from plmcmc.kernels import Hop, jump
from plmcmc.posterior import METHODS, ConvergenceWarning
from plmcmc.posterior.methods import Pullback
from plmcmc.posterior.methods.pullback import JUMP_HOLES
from plmcmc.posterior.problem import problem_of
from plmcmc.posterior.quality_warnings import RHAT_LIMIT
from plmcmc.rng import Streams, blocks_of
from toys import Bounded, Mixture, quiet


def test_two_modes_get_their_weights():
    """Given the last column, P(x0 > 0) is known by Bayes' rule; chains must move between modes."""
    flow = Mixture()
    seen = np.array([0.2, 1.0, 2.0])
    x = np.full((3, 3), np.nan)
    x[:, 2] = seen
    draws = plmcmc.condition(flow, x).sample(100, chains=64, random_state=0)
    found = (draws.values[..., 0] > 0).mean((0, 1))
    expected = weight_of_wide(flow, seen)
    ess = np.array([draws_ess(draws.values[..., row, 0] > 0) for row in range(3)])
    error = np.sqrt(expected * (1 - expected) / ess)
    assert (ess > 200).all()
    assert (np.abs(found - expected) < 4 * error).all()


def weight_of_wide(flow, seen):
    """P(x0 > 0) given the last column, by Bayes' rule."""
    wide = flow.weight * np.exp(-0.5 * (seen / flow.ratio) ** 2) / flow.ratio
    narrow = (1 - flow.weight) * np.exp(-0.5 * seen**2)
    return wide / (wide + narrow)


def draws_ess(indicator):
    from plmcmc.statistics import ess

    return float(ess(indicator.astype(float)[..., None], method="mean")[0])


def test_a_mode_is_never_dropped_in_silence():
    """In many dimensions the wider mode sits many nats lower, at a weight of 0.4.

    Chains cannot cross more holes than they hop for; those that start in it must stay, so that
    R-hat can tell.
    """
    flow = Mixture(features=JUMP_HOLES + 2, gap=6.0)
    x = np.full((4, JUMP_HOLES + 2), np.nan)
    x[:, -1] = 0.0
    with pytest.warns(ConvergenceWarning):
        draws = plmcmc.condition(flow, x).sample(50, chains=16, random_state=0)
    in_wide = (draws.values[..., 0] > 0).mean(1)
    # 64 chains start in it with probability 0.4: four standard deviations.
    assert abs(in_wide.mean() - 0.4) < 4 * (0.24 / 64) ** 0.5
    # The mixed column convicts, not some other one.
    assert (draws.rhat()[:, 0] > RHAT_LIMIT).all()


class Parabola(torch.nn.Module):
    """`x1 = x0^2` and a little noise: given `x1`, `x0` is either of two roots, equally likely."""

    noise = 0.1

    def to_latent(self, x):
        z = torch.stack([x[:, 0], (x[:, 1] - x[:, 0].square()) / self.noise], 1)
        return z, torch.full_like(x[:, 0], -np.log(self.noise))

    def to_data(self, z):
        x = torch.stack([z[:, 0], z[:, 0].square() + self.noise * z[:, 1]], 1)
        return x, torch.full_like(x[:, 0], np.log(self.noise))

    def latent_log_prob(self, z):
        return -0.5 * z.square().sum(1) - np.log(2 * np.pi)

    def latent_sample(self, rows, generator):
        return torch.randn(rows, 2, generator=generator)


def test_hops_weigh_modes_in_many_holes():
    """The same with fewer holes: four chains, all of which often climb into one of the modes."""
    flow = Mixture(features=40, gap=6.0)
    x = np.full((16, 40), np.nan)
    x[:, -1] = np.linspace(-1, 1, 16)
    draws = plmcmc.condition(flow, x).sample(200, chains=4, random_state=0)
    in_wide = draws.values[..., 0] > 0
    expected = weight_of_wide(flow, x[:, -1])
    ess = np.array([draws_ess(in_wide[..., row]) for row in range(16)])
    error = np.sqrt(expected * (1 - expected) / ess)
    assert (ess > 50).all()
    # Sixteen comparisons: a standard normal is beyond with probability .001.
    assert (np.abs(in_wide.mean((0, 1)) - expected) < 4 * error).all()


def crossings(monkeypatch, wide):
    """Return how often chains change roots by jumps, and where R-hat finds that they agree."""
    monkeypatch.setattr(jump, "WIDE", wide)
    monkeypatch.setattr(warmup, "HOPS", 0)
    x = np.stack([np.full(20, np.nan), np.linspace(1, 3, 20)], 1).astype(np.float32)
    with quiet():
        draws = plmcmc.condition(Parabola(), x).sample(100, chains=8, random_state=0)
    positive = draws.values[..., 0] > 0
    return (positive[:, 1:] != positive[:, :-1]).mean(), draws.rhat()[:, 0] <= RHAT_LIMIT


def test_jumps_hit_modes_that_fill_little_of_the_space_between(monkeypatch):
    often, agreed = crossings(monkeypatch, jump.WIDE)
    # Half of the jumps stay near an old draw, and half of those draws are at the other root.
    assert 0.1 < often < 0.3
    assert agreed.mean() > 0.9
    seldom, agreed = crossings(monkeypatch, 1 - 1e-9)
    assert seldom < 0.05
    assert agreed.mean() < 0.5


def test_chains_look_at_no_more_old_draws_however_many_they_are():
    x = np.array([[np.nan, 1.0]], dtype=np.float32)
    problem = problem_of(Parabola(), x)
    streams = Streams.of_rows(0, "warmup", 1, chains=MOST + 50)
    batch = problem.batch(torch.arange(1), MOST + 50)
    y = torch.randn(MOST + 50, 2, generator=torch.Generator().manual_seed(0))
    kernel = Pullback().begin(batch, y, 4, streams)[0]
    assert kernel.kernels[1].proposals[0].centres.shape[1] == MOST


def uneven():
    """Rows whose blocks need trajectories of different lengths: few holes, then many."""
    rng = np.random.default_rng(0)
    flow = shaken(plmcmc.RealNVP(6, width=16, random_state=0), 0.7).float()
    with torch.no_grad():
        source = torch.Generator().manual_seed(0)
        x = plmcmc.flows.sample(flow, 192, source).numpy()
    observed = np.ones_like(x, dtype=bool)
    observed[:64, 0] = False
    observed[64:] = rng.random((128, 6)) < 0.2
    observed[64:, 0] = False
    return flow, x, observed


def test_chunks_of_uneven_blocks_give_the_same_draws(monkeypatch):
    tuned, begin = [], Pullback.begin

    def spy(*given):
        tuned.append(begin(*given))
        return tuned[-1]

    monkeypatch.setattr(Pullback, "begin", spy)
    flow, x, observed = uneven()
    conditional = plmcmc.condition(flow, x, observed)
    options = {"chains": 3, "warmup": 20, "random_state": 0}
    with quiet():
        cut, whole = (conditional.sample(20, chunk_rows=rows, **options) for rows in (64, 192))
    assert np.array_equal(cut.values, whole.values)
    assert len(tuned) == 4
    turns = tuned[-1].kernel.kernels[0].turns
    # Without blocks that differ in length this test could not fail.
    assert len({int(turns[block.start]) for block in blocks_of(192)}) > 1


def test_a_uniform_base_is_served():
    zuko = pytest.importorskip("zuko")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flow = zuko.flows.NCSF(3, transforms=1, hidden_features=(16,))
    x = np.array([[0.3, np.nan, np.nan]], dtype=np.float32)
    with quiet():
        draws = plmcmc.condition(flow, x).sample(20, random_state=0)
    # Its data are angles: beyond the circle there are none.
    assert (np.abs(draws.values) <= np.pi).all()


@pytest.mark.parametrize("low", [0.0, 1.0, -3.0])
def test_rows_outside_a_uniform_base_are_named(low):
    base = torch.distributions.Uniform(torch.full((2,), low), torch.full((2,), low + 1))
    flow = torch.distributions.TransformedDistribution(base, [AffineTransform(0.0, 1.0)])
    inside = [[low + 0.5, np.nan]]
    with quiet():
        draws = plmcmc.condition(flow, inside).sample(4, random_state=0)
    assert draws.method == "auto"
    with pytest.raises(BrokenFlow, match="NaN or zero where chains of row 1 start"):
        plmcmc.condition(flow, [*inside, [low - 0.5, np.nan]]).sample(4, random_state=0)


def test_rows_whose_samples_mostly_lie_outside_a_bounded_base_are_served():
    x, chains = np.array([[np.nan, -0.9], [np.nan, 0.4]]), 600
    with quiet():
        draws = plmcmc.condition(Bounded(), x).sample(
            1, chains=chains, warmup=24, thin=10, random_state=0
        )
    for row, second in enumerate(x[:, 1]):
        low, high = (np.clip(second + side, -1, 1) for side in (-Bounded.width, Bounded.width))
        found = draws.values[:, 0, row, 0]
        assert kstest(found, "uniform", (low, high - low)).pvalue > 1e-4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_samples_on_a_gpu(method):
    flow = plmcmc.RealNVP(4, random_state=0).cuda()
    x = np.array([[0.1, np.nan, 0.3, np.nan], [np.nan, 1.0, np.nan, 2.0]])
    with quiet():
        draws = plmcmc.condition(flow, x).sample(20, method=method, random_state=0)
    assert np.isfinite(draws.values).all()


def test_hops_that_nobody_can_make_are_left_out_and_nothing_changes(monkeypatch):
    """Rows of one mode beside rows of two need no more random numbers than alone."""
    flow = shaken(plmcmc.RealNVP(3, width=8, random_state=0), 0.1).float()
    x = np.array([[0.5, np.nan, np.nan]] * 3, dtype=np.float32)
    posterior = plmcmc.condition(flow, x)
    with quiet():
        left_out = posterior.sample(20, random_state=0)
        monkeypatch.setattr(Hop, "idle", False)
        made = posterior.sample(20, random_state=0)
    assert np.array_equal(left_out.values, made.values)
    assert left_out.passes < made.passes
