"""Ties: a chain that starts in its target stays in it, and scores stay in their intervals."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from exact import FALSE_ALARM, FLOWS, begin
from kernels import table, table_hamiltonian
from plmcmc.kernels import Metropolis, Turns
from plmcmc.rng import Streams
from plmcmc.target import GaussianReference, TableTarget

EDGES = torch.tensor([-torch.inf, -0.5, 0.4, 1.3, torch.inf]).double()
ROWS = 8000
KERNELS = {"turns": lambda target: Metropolis(target, Turns()), "hmc": table_hamiltonian}
# Trajectories go far in a step, and pay for it.
STEPS = {"turns": 40, "hmc": 12}


def tied(flow):
    """Return rows of which two columns are known by their bin only, and the target of them."""
    begun = begin(flow, rows=ROWS)
    observed = begun.data.observed
    low = torch.where(observed, begun.truth, -torch.inf)
    high = torch.where(observed, begun.truth, torch.inf)
    bins = torch.bucketize(begun.truth, EDGES) - 1
    for column in (1, 3):
        seen = observed[:, column]
        low[seen, column] = EDGES[bins[seen, column]]
        high[seen, column] = EDGES[bins[seen, column] + 1]
    return begun, table(flow, begun.data, low, high)


def moved(begun, name, target):
    kernel = KERNELS[name](target)
    streams = Streams.of_rows(1, "test", ROWS)
    with torch.no_grad():
        state = kernel.init(begun.truth)
        for _ in range(STEPS[name]):
            state, _ = kernel.step(state, streams)
    return state.completion


def worst_drift(before, after, where):
    """Return the largest standard score of paired moments, and how large it may be."""
    before, after = np.tanh(before.numpy()), np.tanh(after.numpy())
    scores = []
    for j in range(before.shape[1]):
        rows = where[:, j].numpy()
        for i in range(before.shape[1]):
            change = (after[:, j] * after[:, i] - before[:, j] * before[:, i])[rows]
            scores.append(change.mean() / (change.std() / len(change) ** 0.5))
        change = (after - before)[rows, j]
        scores.append(change.mean() / (change.std() / len(change) ** 0.5))
    return np.abs(scores).max(), norm.isf(FALSE_ALARM / (2 * len(scores)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_ties_and_holes_stay_in_their_target(kernel):
    begun, target = tied(FLOWS["realnvp"]())
    after = moved(begun, kernel, target)
    reference = target.reference
    moving = reference.free | reference.tied
    worst, limit = worst_drift(begun.truth, after, moving)
    assert worst < limit
    inside = (after >= reference.low) & (after <= reference.high)
    assert bool(inside.all())
    assert float((after - begun.truth)[reference.tied].abs().mean()) > 0.05


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_the_volume_of_ties_it_is_convicted(kernel):
    begun, target = tied(FLOWS["realnvp"]())

    class Careless(TableTarget):
        def __call__(self, position):
            point = super().__call__(position)
            moved = point.completion.square() - position.square()
            volume = 0.5 * torch.where(self.reference.tied, moved, 0.0).sum(1)
            return point._replace(log_density=point.log_density - volume)

    reference = target.reference
    after = moved(begun, kernel, Careless(target.flow, reference))
    worst, limit = worst_drift(begun.truth, after, reference.free | reference.tied)
    assert worst > limit


def test_scores_go_inward_and_come_back():
    begun, target = tied(FLOWS["linear"]())
    again, _ = target.reference.outward(target.reference.inward(begun.truth))
    torch.testing.assert_close(again, begun.truth)


def test_the_volume_of_ties_is_that_of_the_jacobian():
    _, target = tied(FLOWS["linear"]())
    reference, source = target.reference, torch.Generator().manual_seed(0)
    position = torch.randn(ROWS, 5, generator=source, dtype=torch.float64)
    rows = (reference.tied.sum(1) == 2).nonzero()[:20, 0]
    slopes = torch.stack(
        [
            torch.autograd.functional.jacobian(
                lambda u, row=row: reference.outward(position.index_copy(0, row[None], u))[0][row],
                position[row][None],
            )[:, 0]
            for row in rows
        ]
    ).diagonal(dim1=1, dim2=2)
    inside = torch.where(reference.tied[rows], slopes.log(), 0.0).sum(1)
    # What the reference leaves out as constant: of every interval its mass.
    low, high = (torch.special.ndtr(end) for end in (reference.low, reference.high))
    mass = torch.where(reference.tied, (high - low).log(), 0.0).sum(1)
    scores, volume = reference.outward(position)
    # Known scores' coordinates mean nothing, and are normal.
    known = torch.where(reference.low == reference.high, scores.square() - position.square(), 0.0)
    found = volume + mass - 0.5 * known.sum(1)
    torch.testing.assert_close(inside, found[rows])


def test_several_chains_of_a_row_share_its_reference():
    _, target = tied(FLOWS["realnvp"]())
    whole = target.reference
    reference = GaussianReference(
        whole.low[:64], whole.high[:64], whole.mean, whole.gain[:64], whole.root[:64]
    )
    position = Streams.of_rows(0, "start", 64, chains=3).normal(torch.empty(192, 5).double())
    target = TableTarget(target.flow, reference)
    with torch.no_grad():
        together, single = target(position), target(position[1::3])
    torch.testing.assert_close(together.completion[1::3], single.completion)
    torch.testing.assert_close(together.log_density[1::3], single.log_density)
    low, high = (end.repeat_interleave(3, 0) for end in (reference.low, reference.high))
    assert bool(((together.completion >= low) & (together.completion <= high)).all())


def test_each_chain_of_a_row_may_have_a_gaussian_of_its_own():
    _, target = tied(FLOWS["linear"]())
    whole = target.reference
    ends = whole.low[:64], whole.high[:64]
    means = torch.stack([whole.mean, whole.mean + 1])
    gains, roots = (torch.stack([own[:64], 2 * own[:64]], 1) for own in (whole.gain, whole.root))
    both = GaussianReference(*ends, means, gains, roots)
    position = Streams.of_rows(0, "start", 64, chains=2).normal(torch.empty(128, 5).double())
    scores, volume = both.outward(position)
    back = both.inward(scores)
    for place in range(2):
        single = GaussianReference(*ends, means[place], gains[:, place], roots[:, place])
        found, own_volume = single.outward(position[place::2])
        torch.testing.assert_close(scores[place::2], found)
        torch.testing.assert_close(volume[place::2], own_volume)
        torch.testing.assert_close(back[place::2], single.inward(found))
