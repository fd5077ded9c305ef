"""Annealed importance sampling (Neal, 2001): walkers led from a Gaussian to the conditional.

The Gaussian is known with its volume, and close to the conditional: walking from one to the other
weighs each walker by an unbiased estimate of `p(x_O)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from plmcmc.flows import row_sum
from plmcmc.kernels import Frame, Hamiltonian
from plmcmc.kernels.base import acceptable
from plmcmc.kernels.gradient import GradientState, differentiated
from plmcmc.rng import Streams


def lead(
    kernel: Hamiltonian,
    state: GradientState,
    gaussian: Callable[[GradientState], Tensor],
    streams: Streams,
    *,
    stages: int,
) -> tuple[Tensor, int]:
    """Return walkers' log-weights, and the passes spent.

    Args:
        kernel: whose target is where walkers go, and whose frame's Gaussian is where they start.
        state: walkers drawn from that Gaussian.
        gaussian: its log-density.
        streams: random numbers.
        stages: steps from one to the other.
    """
    log_weight, spent = torch.zeros_like(state.log_density), 0
    # Slowly at first: there the weights change most.
    shares = [(stage / stages) ** 2 for stage in range(stages + 1)]
    for before, share in pairwise(shares):
        # Where the conditional has no density, a walker weighs nothing.
        gain = acceptable(state.log_density) - gaussian(state)
        log_weight = log_weight + (share - before) * gain
        if share < 1:
            state, info = replace(kernel, share=share).step(state, streams)
            spent += info.passes
    return log_weight, spent


def anneal(
    kernel: Hamiltonian, state: GradientState, streams: Streams, *, stages: int
) -> tuple[Tensor, int]:
    """Return log-weights `(rows, chains)` whose mean weight is `p(x_O)`, and the passes spent.

    Args:
        kernel: tuned for the rows; its frame is where walkers start.
        state: any state of the rows; only its observed part is used.
        streams: random numbers.
        stages: steps from the Gaussian to the conditional.
    """
    frame = kernel.frame
    if not isinstance(frame, Frame):
        raise TypeError(
            f"walkers start from a frame of the missing entries, not {type(frame).__name__}"
        )
    u = frame.gather(streams.normal(state.position))
    state = differentiated(kernel.target, frame.outward(u, state.position))
    log_weight, spent = lead(kernel, state, _gaussian(frame), streams, stages=stages)
    # Where walkers start costs a pass, and its gradient two.
    return log_weight.reshape(len(frame.centre), -1), spent + 3


def _gaussian(frame: Frame) -> Callable[[GradientState], Tensor]:
    """Return the log-density of the frame's Gaussian at a state's holes."""
    constant = -0.5 * math.log(2 * math.pi) * frame.holes.present.sum(1) - frame.log_volume

    def log_density(state: GradientState) -> Tensor:
        u = frame.inward(state.position)
        squares = row_sum(u.square().flatten(0, 1))
        return constant.repeat_interleave(u.shape[1]) - 0.5 * squares

    return log_density
