"""How likely is what was seen? The log-likelihood of rows with holes, by annealed walkers.

Walkers start from the Gaussian's conditional, whose volume is known, and are led to the flow's:
each weighs an unbiased estimate of the probability of what is seen (Neal, 2001). Mixtures know the
density of all but the holes; only where ties are in their intervals is averaged over.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.special import ndtr

from plmcmc.adaptation.annealing import lead
from plmcmc.flows import GaussianMixture
from plmcmc.imputation.model import TableModel
from plmcmc.imputation.sampling import rows_per_chunk
from plmcmc.kernels import GradientState, differentiated
from plmcmc.kernels.mixture_draws import seen_log_prob
from plmcmc.kernels.table_moves import trajectory
from plmcmc.posterior.memory import in_chunks
from plmcmc.rng import Block, Streams
from plmcmc.target import GaussianReference, TableTarget
from plmcmc.threads import one_thread

Array = NDArray[np.float64]
# Walkers of each member, and stages from the Gaussian to the flow: at least these, and as many as
# a row has scores. Of many, those of levels above all, weights would be uneven otherwise.
WALKERS, STAGES = 4, 12
STEP = 0.4


@one_thread()
def log_likelihood(model: TableModel, table: Array, seed: int) -> Array:
    """Return `log p(what is seen)` of each row: density of continuous values, mass of all others.

    That of all members together, each with the same weight.
    """
    found = np.empty(len(table))
    places = WALKERS * model.members
    flows = WALKERS * model.flow.members

    def work(blocks: list[Block]) -> None:
        rows = slice(blocks[0].start, blocks[-1].stop)
        where = model.flow.mean.device
        options = {"device": where}
        streams = Streams.of_blocks(seed, "likelihood", blocks, chains=flows, **options)
        reference = model.references(table[rows]).of(torch.arange(rows.stop - rows.start))
        with torch.no_grad():
            weights = _annealed(TableTarget(model.flow, reference), flows, streams)
            if model.mixture is not None:
                own = places - flows
                streams = Streams.of_blocks(seed, "ties", blocks, chains=own, **options)
                mixed = _marginal(model.mixture, reference, own, streams)
                weights = torch.cat([weights, mixed], 1)
            scores = torch.logsumexp(weights, 1) - math.log(places) + _volume(reference)
        found[rows] = scores.cpu().numpy()

    in_chunks(len(table), rows_per_chunk(model, places), work, lambda rows: None)
    return found + model.schema.log_slope(table)


def _annealed(target: TableTarget, places: int, streams: Streams) -> Tensor:
    """Return log-weights `(rows, places)` of the flow's density over the coordinates' own."""
    low = target.reference.low
    state = differentiated(target, streams.normal(low.repeat_interleave(places, 0)))
    steps = torch.full((len(low),), STEP, dtype=torch.float64, device=low.device)
    stages = max(STAGES, low.shape[1])
    log_weight, _ = lead(trajectory(target, steps), state, _normal, streams, stages=stages)
    return log_weight.reshape(len(low), -1)


def _marginal(
    mixture: GaussianMixture, reference: GaussianReference, places: int, streams: Streams
) -> Tensor:
    """Return log-weights `(rows, places)` of a mixture's density of what is seen, in like terms."""
    position = streams.normal(reference.low.repeat_interleave(places, 0))
    found = seen_log_prob(mixture, reference, position)
    scores = reference.outward(position)[0].double().reshape(*found.shape, -1)
    seen = 0.5 * torch.where(reference.free[:, None], 0.0, scores.square()).sum(2)
    # Holes are integrated out: their volume, which is added to all, is not theirs.
    return found + seen - _holes(reference)[:, None]


def _normal(state: GradientState) -> Tensor:
    """Return the standard normal's log-density of coordinates, less its constant."""
    return -0.5 * state.position.square().sum(1, dtype=torch.float64)


def _volume(reference: GaussianReference) -> Tensor:
    """Return what coordinates leave out: the holes' volume, intervals' mass, constants."""
    free, tied = reference.free, reference.tied
    known = ~(free | tied)
    low, high = reference.low.double(), reference.high.double()
    # From the nearer tail, where probabilities are small numbers and not nearly 1.
    upper = low > 0
    mass = torch.where(upper, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    terms = torch.where(tied, mass.clamp(min=1e-300).log(), 0.0)
    terms = terms - torch.where(known, 0.5 * low.square(), 0.0)
    return terms.sum(1) + 0.5 * math.log(2 * math.pi) * tied.sum(1) + _holes(reference)


def _holes(reference: GaussianReference) -> Tensor:
    """Return the holes' share of it."""
    roots = reference.root.diagonal(dim1=1, dim2=2).double()
    terms = torch.where(reference.free, roots.clamp(min=1e-300).log(), 0.0)
    return terms.sum(1) + 0.5 * math.log(2 * math.pi) * reference.free.sum(1)
