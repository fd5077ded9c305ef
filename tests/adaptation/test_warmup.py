"""Tuning: climbs, step sizes, lost chains, and what comes out of it all."""

import pytest
import torch

from exact import FLOWS, begin, shaken
from plmcmc.adaptation import Warmup, climb
from plmcmc.adaptation.pool import MOST, Pool
from plmcmc.adaptation.step_size import StepSize
from plmcmc.adaptation.trajectory_length import Memory
from plmcmc.adaptation.warmup import HOPS
from plmcmc.flows import RealNVP
from plmcmc.kernels import Cycle, Holes
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget
from toys import Handing

INFORMATION = torch.ones(5).double()
LARGEST = 1.4


def test_climbing_goes_up_and_reaches_a_gaussian_s_mode():
    flow = FLOWS["linear"]()
    begun = begin(flow, rows=30)
    target = ConditionalTarget(flow, begun.data)
    top = climb(target, begun.truth + 3, steps=300)
    start = target(begun.truth + 3)
    assert bool((top.log_density >= start.log_density).all())
    # At the mode of a Gaussian's conditional the slope is nothing.
    assert float(top.gradient.abs().median()) < 0.05


def test_step_sizes_settle_where_acceptance_is_as_wanted():
    # A made-up row whose acceptance falls with its step, at a rate of its own.
    rates = torch.tensor([1.0, 2.0, 4.0]).double()
    tuning = StepSize.start(torch.full((3,), 0.3), LARGEST)
    for _ in range(300):
        tuning = tuning.update(torch.exp(-rates * tuning.log_step.exp()), 0.8)
    expected = -torch.log(torch.tensor(0.8)) / rates
    torch.testing.assert_close(tuning.log_mean.exp(), expected, rtol=0.1, atol=0)


def test_step_sizes_have_a_largest():
    tuning = StepSize.start(torch.full((1,), 0.3), LARGEST)
    for _ in range(50):
        tuning = tuning.update(torch.ones(1).double(), 0.8)
    assert float(tuning.log_mean.exp()) <= LARGEST * (1 + 1e-12)


def test_pools_hold_the_moments_of_all_they_saw():
    source = torch.Generator().manual_seed(0)
    seen = torch.randn(7, 2, 3, 4, generator=source).double()
    pool = None
    for step in seen:
        new = Pool.of(step)
        pool = new if pool is None else pool.add(new)
    flat = seen.movedim(1, 0).reshape(2, 21, 4)
    torch.testing.assert_close(pool.mean, flat.mean(1))
    centred = flat - flat.mean(1, keepdim=True)
    torch.testing.assert_close(pool.covariance, centred.mT @ centred / 21)
    assert pool.draws == 21


def test_pools_forget_the_first_of_many_draws():
    pool = Pool.of(torch.zeros(2, 3, 4))
    for step in range(MOST):
        pool = pool.add(Pool.of(torch.full((2, 3, 4), float(step))))
    assert MOST - 3 < pool.draws <= MOST
    latest = torch.arange(MOST - pool.draws // 3, MOST).double()
    torch.testing.assert_close(pool.mean, latest.mean().expand(2, 4))


def tuned(flow, rows=20, chains=4, places=None, **options):
    begun = begin(flow, rows=rows)
    data = begun.data.repeat(chains)
    streams = Streams.of_rows(0, "warmup", rows, chains=chains)
    noise = streams.normal(data.values)
    holes = Holes.of(begun.data.observed, 5)
    target = ConditionalTarget(flow, data)
    with torch.no_grad():
        return Warmup(**options).run(target, noise, holes, INFORMATION, streams, places)


def test_on_a_linear_flow_nearly_everything_is_accepted():
    kernel, state, passes = tuned(FLOWS["linear"]())
    streams = Streams.of_rows(1, "steps", 20, chains=4)
    accepted = []
    for _ in range(50):
        state, info = kernel.step(state, streams)
        accepted.append(info.accepted)
    assert isinstance(kernel, Cycle)
    # The centre is a mean of a few draws, not the mode: all but a few turns are exact.
    assert float(torch.stack(accepted).double().mean()) > 0.95
    assert passes > 300


@pytest.mark.parametrize("scouts", [False, True])
def test_the_cost_is_what_it_says(scouts):
    flow = Counting(shaken(RealNVP(5, width=16, random_state=0), 0.7))
    source = torch.Generator().manual_seed(0)
    places = [torch.randn(80, 5, generator=source).double() for _ in range(3)] if scouts else None
    kernel, _, passes = tuned(flow, windows=(3, 4), climb_steps=10, places=places)
    assert len(kernel.kernels[1].proposals) == 1 + (HOPS if scouts else 0)
    # A gradient counts as two passes more, a forward product as one.
    gradients = flow.passes - flow.products
    assert passes == 3 * gradients + flow.products
    assert kernel.exact


@pytest.mark.parametrize(("kept", "times"), [(0.0, 1), (0.97, 4)])
def test_draws_turn_further_where_the_last_window_did_not_forget(kept, times, monkeypatch):
    """What the frame does not know of shows in how much neighbouring draws are alike."""
    same = property(lambda memory: torch.full_like(memory.total, kept))
    monkeypatch.setattr(Memory, "correlation", same)
    kernel, *_ = tuned(FLOWS["linear"](), jumps=False, trajectory=2.2, most_turns=1000)
    angle = kernel.step_size.median() * kernel.turns[0]
    assert 2.2 * times <= float(angle) + 1e-9 <= 2.2 * times + float(kernel.step_size.median())
    # Some go as far as they would; none is shorter than before.
    assert kernel.low.tolist() == pytest.approx([0.8 / times] * len(kernel.low))


class Counting(Handing):
    """Counts encodings, and among them those of the metric."""

    def __init__(self, flow):
        super().__init__(flow)
        self.passes, self.products = 0, 0

    def to_latent(self, x):
        self.passes += 1
        self.products += not torch.is_grad_enabled()
        return self.flow.to_latent(x)


@pytest.mark.parametrize("trajectories", [3, 65, 200])
def test_a_warm_up_can_be_stretched(trajectories):
    lasting = Warmup().lasting(trajectories)
    assert abs(sum(lasting.windows + lasting.stretches) - trajectories) <= 2


def test_no_row_turns_by_half_a_turn():
    """Steps of a linear flow grow as far as they may; two of them would mirror every draw."""
    kernel, *_ = tuned(FLOWS["linear"](), jumps=False, trajectory=2.2)
    angle = kernel.step_size * kernel.turns
    assert float(angle.max()) <= 2.2 + 1e-9
    assert float(angle.max()) * kernel.high < torch.pi


@pytest.mark.parametrize("wrong", [{"jitter": 1.0}, {"trajectory": 0.0}, {"most_turns": 0}])
def test_trajectories_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="jitter from 0 to below 1"):
        tuned(FLOWS["linear"](), **wrong)
