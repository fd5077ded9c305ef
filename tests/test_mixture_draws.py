"""Holes drawn from a mixture's conditional: exact of its own, and corrected for of any other."""

import pytest
import torch

from plmcmc.flows import Beside, GaussianMixture, TabularFlow
from plmcmc.kernels import Cycle, Metropolis, MixtureDraws, Turns
from plmcmc.rng import Streams
from plmcmc.target import GaussianReference, TableTarget
from test_table_target import FLOWS, ROWS, tied, worst_drift

COLUMNS, COMPONENTS = 5, 6


def mixture(members=1, columns=COLUMNS):
    source = torch.Generator().manual_seed(4)
    flow = GaussianMixture(columns, members=members, components=COMPONENTS).double()
    flow.mean.normal_(generator=source)
    flow.inward.add_(0.3 * torch.randn(flow.inward.shape, generator=source).double().tril(-1))
    # Of other sizes, too: probabilities of components depend on them.
    flow.inward.mul_(torch.linspace(0.5, 3, COMPONENTS).double()[:, None, None])
    flow.log_weight.copy_(torch.randn(members, COMPONENTS, generator=source).log_softmax(1))
    return flow


class Free(MixtureDraws):
    """A planted bug: what a draw owes is forgotten."""

    def __call__(self, position, streams):
        new, owed = super().__call__(position, streams)
        return new, torch.zeros_like(owed)


@pytest.mark.parametrize(("kind", "right"), [(MixtureDraws, True), (Free, False)])
def test_another_flow_s_target_is_kept(kind, right):
    begun, target = tied(FLOWS["realnvp"]())
    draws = kind(mixture(), target.reference, 1)
    # Ties are moved by others, and holes are drawn given where they are.
    kernel = Cycle((Metropolis(target, Turns((0.5,))), Metropolis(target, draws)))
    streams = Streams.of_rows(1, "test", ROWS)
    with torch.no_grad():
        state = kernel.init(begun.truth)
        for _ in range(10):
            state, _ = kernel.step(state, streams)
    reference = target.reference
    worst, limit = worst_drift(begun.truth, state.completion, reference.free | reference.tied)
    assert (worst < limit) == right


def test_a_mixture_s_own_chains_accept_every_draw():
    _, target = tied(FLOWS["realnvp"]())
    own = mixture()
    target = TableTarget(own, target.reference)
    kernel = Metropolis(target, MixtureDraws(own, target.reference, 1))
    streams = Streams.of_rows(1, "test", ROWS)
    with torch.no_grad():
        state = kernel.init(torch.zeros(ROWS, COLUMNS).double())
        after, info = kernel.step(state, streams)
    assert float(info.log_ratio.abs().max()) < 1e-6
    free, tied_ = target.reference.free, target.reference.tied
    assert bool((after.completion != state.completion)[free].all())
    assert torch.equal(after.completion[~free], state.completion[~free])
    assert bool(tied_.any())


def one_pattern(rows):
    """Return a reference of rows of which the second column is seen, at 0.7."""
    infinite = torch.full((rows, 2), torch.inf).double()
    low, high = -infinite, infinite.clone()
    low[:, 1] = high[:, 1] = 0.7
    gain, root = torch.zeros(rows, 2, 2).double(), torch.zeros(rows, 2, 2).double()
    gain[:, 1, 1] = root[:, 0, 0] = 1.0
    return GaussianReference(low, high, torch.zeros(2).double(), gain, root)


def test_draws_have_the_conditional_s_density():
    """The share of draws below some points is that of the density, integrated on a grid."""
    own, rows = mixture(columns=2), 40_000
    draws = MixtureDraws(own, one_pattern(rows), 1)
    streams = Streams.of_rows(3, "draws", rows)
    new, _ = draws(torch.zeros(rows, 2).double(), streams)
    found = draws.reference.outward(new)[0]
    assert bool((found[:, 1] == 0.7).all())
    grid = torch.linspace(-9, 9, 20_001).double()
    density = own.member_log_prob(0, torch.stack([grid, torch.full_like(grid, 0.7)], 1)).exp()
    below = density.cumsum(0) / density.sum()
    for point in (-1.0, -0.3, 0.2, 0.9, 1.8):
        expected = float(below[torch.searchsorted(grid, point)])
        share = float((found[:, 0] < point).double().mean())
        assert share == pytest.approx(expected, abs=4.5 * (expected * (1 - expected) / rows) ** 0.5)


def test_places_ask_their_own_mixture():
    """Flows come first, and ask by turns; of five members the last two are mixtures."""
    flow = TabularFlow(2, members=3, couplings=2, width=4, random_state=0).double()
    own, rows = mixture(members=2, columns=2), 64
    # The second mixture lies elsewhere: whoever asks it is seen there.
    own.mean[1] += 100
    reference = one_pattern(rows)
    kernel = Metropolis(
        TableTarget(Beside([flow, own]), reference), MixtureDraws(own, reference, 5)
    )
    streams = Streams.of_rows(3, "draws", rows, chains=10)
    position = torch.zeros(rows * 10, 2).double()
    new, _ = kernel.proposal(position, streams)
    far = reference.outward(new)[0][:, 0].reshape(rows, 2, 5) > 50
    for place, expected in enumerate([False, True, False, False, True]):
        assert bool((far[:, :, place] == expected).all())
