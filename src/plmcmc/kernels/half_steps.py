"""Metropolis steps in two halves: what the first pass already refuses is not encoded.

A flow whose volumes are the same everywhere bounds its own density. A proposal whose auxiliary
density is so low that no completion could make up for it is rejected whatever the second pass
says; with the paper's auxiliary those are nearly all that are rejected. Decisions are the same
ones, by the same random numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from plmcmc.flows import choose_rows
from plmcmc.kernels.base import acceptable
from plmcmc.kernels.metropolis import Metropolis
from plmcmc.rng import Streams
from plmcmc.target import Point, ProjectedLatentTarget
from plmcmc.target.projected import Decoded

# Nats that a log-density may be off by rounding.
SLACK = 1.0


class HalfStep(NamedTuple):
    """Proposals after their first pass.

    Attributes:
        position: proposed.
        y: the same in data space.
        log_auxiliary: as `Decoded` has it.
        log_det: likewise.
        correction: what the proposals owe.
        lot: log of the uniform number that decides.
        order: all rows, those first whose proposals may still be accepted.
        hopeful: how many they are.
    """

    position: Tensor
    y: Tensor
    log_auxiliary: Tensor
    log_det: Tensor
    correction: Tensor
    lot: Tensor
    order: Tensor
    hopeful: Tensor


def most_of(kernel: object) -> Tensor | None:
    """Return what a second pass may add at most; None of kernels whose steps have no halves."""
    if not isinstance(kernel, Metropolis) or kernel.gradient:
        return None
    own = kernel.target.most() if isinstance(kernel.target, ProjectedLatentTarget) else None
    return None if own is None else own.detach()


def first_half(kernel: Metropolis, most: Tensor, state: Point, streams: Streams) -> HalfStep:
    """Propose for all rows, decode, and find who may still be accepted."""
    target = _projected(kernel)
    position, correction = kernel.proposal(state.position, streams)
    lot = streams.uniform(state.log_density).log()
    y, log_auxiliary, log_det = target.decode(position)
    highest = log_auxiliary + most + log_det - state.log_density + correction
    # What is NaN is for the second half to refuse.
    hopeless = highest + SLACK < lot
    order = hopeless.to(torch.uint8).argsort(stable=True)
    hopeful = len(order) - hopeless.sum()
    return HalfStep(position, y, log_auxiliary, log_det, correction, lot, order, hopeful)


def second_half(
    kernel: Metropolis, trial: HalfStep, state: Point, rows: Tensor
) -> tuple[Point, Tensor, Tensor]:
    """Encode the proposals of some rows, and decide.

    Returns:
        These rows' new states, who of them was accepted, and their log-ratios.
    """
    own = Point(*(part.index_select(0, rows) for part in state))
    position, *known, correction, lot = (part.index_select(0, rows) for part in trial[:6])
    proposed = _projected(kernel).encode(position, Decoded(*known), rows)
    log_ratio = acceptable(proposed.log_density - own.log_density + correction)
    accepted = lot < log_ratio
    pairs = zip(proposed, own, strict=True)
    return Point(*(choose_rows(accepted, new, old) for new, old in pairs)), accepted, log_ratio


def _projected(kernel: Metropolis) -> ProjectedLatentTarget:
    assert isinstance(kernel.target, ProjectedLatentTarget)
    return kernel.target
