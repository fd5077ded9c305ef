"""Trajectories go further where draws resemble the ones before."""

import math

import pytest
import torch

from plmcmc.adaptation.trajectory_length import LONGEST, Memory, further

CHAINS, STEPS = 4, 2000


def walked(correlations, chains=CHAINS, steps=STEPS, apart=0.0):
    """Return the memory of autoregressive chains, a hole for each correlation."""
    source = torch.Generator().manual_seed(0)
    kept = torch.tensor(correlations).double()
    spread = (1 - kept**2).sqrt()
    offset = apart * torch.arange(chains)[:, None]
    now = torch.randn(1, chains, len(kept), generator=source).double()
    memory = Memory.of(now + offset)
    for _ in range(steps):
        now = kept * now + spread * torch.randn(now.shape, generator=source)
        memory = memory.add(now + offset)
    return memory


def test_the_correlation_of_neighbours():
    expected = torch.tensor([[0.9, 0.5, 0.0, -0.5]]).double()
    # Of an autoregressive chain, the deviation of the estimate is at most that of white noise.
    found = walked([0.9, 0.5, 0.0, -0.5]).correlation
    torch.testing.assert_close(found, expected, rtol=0, atol=4 / math.sqrt(CHAINS * STEPS))


def test_chains_that_do_not_meet_have_forgotten_nothing():
    assert float(walked([0.0], apart=10.0).correlation) > 0.95


def test_holes_that_are_not_there_do_not_count():
    memory = Memory.of(torch.zeros(1, 2, 3)).add(torch.zeros(1, 2, 3))
    assert bool(memory.correlation.isnan().all())
    assert further(memory.correlation) == 1.0


@pytest.mark.parametrize(
    ("correlation", "expected"),
    [(-0.3, 1.0), (0.5, 1.0), (math.cos(math.pi / 6), 2.0), (0.999, LONGEST), (1.5, LONGEST)],
)
def test_as_much_further_as_is_missing(correlation, expected):
    assert further(torch.full((2, 5), correlation).double()) == pytest.approx(expected)


def test_a_few_holes_do_not_make_all_wait():
    correlation = torch.zeros(1, 100).double()
    correlation[0, :9] = 0.99
    assert further(correlation) == 1.0
    correlation[0, :11] = 0.99
    assert further(correlation) == LONGEST
