"""Ties: a chain that starts in its target stays in it, and scores stay in their intervals."""

import numpy as np
import torch
from scipy.stats import norm

from exact import FALSE_ALARM, FLOWS, begin
from kernels import innovations
from plmcmc.kernels import Innovations, Metropolis
from plmcmc.rng import Streams
from plmcmc.target import Reference, TableTarget

EDGES = torch.tensor([-torch.inf, -0.5, 0.4, 1.3, torch.inf]).double()
ROWS, STEPS = 8000, 40


def tied(flow):
    """Return rows of which two columns are known by their bin only, and a kernel for them."""
    begun = begin(flow, rows=ROWS)
    observed = begun.data.observed
    low = torch.where(observed, begun.truth, -torch.inf)
    high = torch.where(observed, begun.truth, torch.inf)
    bins = torch.bucketize(begun.truth, EDGES) - 1
    for column in (1, 3):
        seen = observed[:, column]
        low[seen, column] = EDGES[bins[seen, column]]
        high[seen, column] = EDGES[bins[seen, column] + 1]
    return begun, innovations(flow, begun.data, low, high)


def moved(begun, kernel):
    streams = Streams.of_rows(1, "test", ROWS)
    with torch.no_grad():
        state = kernel.init(begun.truth)
        for _ in range(STEPS):
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


def test_ties_and_holes_stay_in_their_target():
    begun, kernel = tied(FLOWS["realnvp"]())
    after = moved(begun, kernel)
    reference = kernel.target.reference
    moving = reference.free | reference.tied
    worst, limit = worst_drift(begun.truth, after, moving)
    assert worst < limit
    inside = (after >= reference.low) & (after <= reference.high)
    assert bool(inside.all())
    assert float((after - begun.truth)[reference.tied].abs().mean()) > 0.05


def test_without_the_reference_s_density_of_ties_it_is_convicted():
    begun, kernel = tied(FLOWS["realnvp"]())

    class Careless(TableTarget):
        def __call__(self, position):
            point = super().__call__(position)
            ties = torch.where(self.reference.tied, position, 0.0)
            return point._replace(log_density=point.log_density - 0.5 * ties.square().sum(1))

    reference = kernel.target.reference
    careless = Metropolis(Careless(kernel.target.flow, reference), Innovations(reference))
    after = moved(begun, careless)
    worst, limit = worst_drift(begun.truth, after, reference.free | reference.tied)
    assert worst > limit


def test_scores_go_inward_and_come_back():
    begun, kernel = tied(FLOWS["linear"]())
    reference = kernel.target.reference
    again = reference.outward(reference.inward(begun.truth))
    torch.testing.assert_close(again, begun.truth)


def test_several_chains_of_a_row_share_its_reference():
    _, kernel = tied(FLOWS["realnvp"]())
    whole = kernel.target.reference
    reference = Reference(
        whole.low[:64], whole.high[:64], whole.mean, whole.gain[:64], whole.root[:64]
    )
    many = Innovations(reference, chains=3)
    position = many.start(Streams.of_rows(0, "start", 64, chains=3))
    target = TableTarget(kernel.target.flow, reference, chains=3)
    with torch.no_grad():
        together = target(position)
        single = TableTarget(kernel.target.flow, reference)(position[1::3])
    torch.testing.assert_close(together.completion[1::3], single.completion)
    torch.testing.assert_close(together.log_density[1::3], single.log_density)
    low, high = (end.repeat_interleave(3, 0) for end in (reference.low, reference.high))
    assert bool(((together.completion >= low) & (together.completion <= high)).all())
