"""The auxiliary's scale, chosen by the decisions it overturns (paper, appendix E.4).

A narrow auxiliary rejects whatever misses the observed values: the chain then only rebuilds them. A
wide one guides nothing. In between, of the proposals that are rejected, a share would be accepted
by a flat auxiliary; the share is what is tuned to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from plmcmc.adaptation.step_size import StepSize
from plmcmc.data import Incomplete
from plmcmc.flows import Flow, choose_rows
from plmcmc.kernels import Perturb
from plmcmc.kernels.base import choose, decide
from plmcmc.rng import Streams
from plmcmc.target import FlatAuxiliary, NormalAuxiliary, ProjectedLatentTarget

FIRST_SCALE, FIRST_STEP, LARGEST_STEP = 0.1, 0.1, 10.0
# Of .2, .3, .5 and .7 the best for three of four latent kernels, and for them no worse than the
# best fixed scale (benchmarks/auxiliary.py); MALA would take .2.
OVERTURNED = 0.3
# What random walks do best with (Roberts, Gelman and Gilks, 1997).
ACCEPTED = 0.234
SMALLEST, LARGEST = 1e-4, 10.0


class Chosen(NamedTuple):
    """An auxiliary, and the passes per chain that choosing it cost."""

    auxiliary: NormalAuxiliary
    passes: int


def chosen_auxiliary(
    flow: Flow,
    data: Incomplete,
    y: Tensor,
    unit: Tensor,
    streams: Streams,
    *,
    chains: int,
    proposals: int,
) -> Chosen:
    """Tune the scale of a normal auxiliary on a short random walk, row by row.

    The walk's own step is tuned at the same time.

    Args:
        flow: the flow.
        data: what is seen, a place for each chain.
        y: full rows to start at.
        unit: `(*event)`, deviation of each entry; scales are multiples of it.
        streams: random numbers.
        chains: chains of each row.
        proposals: length of the walk.
    """
    rows = len(y) // chains
    target = ProjectedLatentTarget(flow, data, FlatAuxiliary())
    point, decoded = target(target.start(y)), y
    first = torch.full((rows,), FIRST_STEP, dtype=torch.float64, device=y.device)
    steps = StepSize.start(first, LARGEST_STEP)
    log_scale = torch.full_like(first, math.log(FIRST_SCALE))
    for number in range(1, proposals + 1):
        auxiliary = _normal(log_scale, chains, unit)
        step = steps.log_step.exp().repeat_interleave(chains)
        position, correction = Perturb(step)(point.position, streams)
        proposed, new = target(position), flow.to_data(position)[0]
        log_flat = proposed.log_density - point.log_density + correction
        guide = auxiliary.log_prob(new, data) - auxiliary.log_prob(decoded, data)
        accepted, log_ratio = decide(log_flat + guide, streams)
        point, decoded = choose(accepted, proposed, point), choose_rows(accepted, new, decoded)
        ours, flat = (_probability(ratio).reshape(rows, chains) for ratio in (log_ratio, log_flat))
        # With the same uniform number: rejected here and accepted there, of all rejections.
        share = (flat - ours).clamp(min=0).sum(1) / (1 - ours).sum(1).clamp(min=1e-6)
        log_scale = log_scale + 2 * number**-0.5 * (share - OVERTURNED)
        log_scale = log_scale.clamp(math.log(SMALLEST), math.log(LARGEST))
        steps = steps.update(ours.mean(1), ACCEPTED)
    return Chosen(_normal(log_scale, chains, unit), 3 * proposals)


def _normal(log_scale: Tensor, chains: int, unit: Tensor) -> NormalAuxiliary:
    scale = log_scale.exp().repeat_interleave(chains).reshape(-1, *[1] * unit.ndim)
    return NormalAuxiliary(scale * unit.double())


def _probability(log_ratio: Tensor) -> Tensor:
    return torch.nan_to_num(log_ratio, -torch.inf).clamp(max=0).exp()
