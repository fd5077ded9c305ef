"""Climb from dispersed starts to where the conditional has its mass."""

from __future__ import annotations

import torch
from torch import Tensor

from plmcmc.kernels import Frame
from plmcmc.kernels.base import choose
from plmcmc.kernels.gradient import GradientState, differentiated
from plmcmc.target import ConditionalTarget

_FIRST, _SECOND = 0.9, 0.99
# Length of the first step in the target's coordinates; the last is a tenth of it.
RATE = 0.1
SETTLING_STEPS = 3


def climb(target: ConditionalTarget, y: Tensor, *, steps: int) -> GradientState:
    """Return the highest point each chain finds in `steps` of Adam on `log p(y_M; x_O)`.

    Args:
        target: the conditional density.
        y: full rows in data space.
        steps: how many.
    """
    state = best = differentiated(target, target.start(y))
    mean, square = torch.zeros_like(y), torch.zeros_like(y)
    for step in range(1, steps + 1):
        slope = torch.nan_to_num(state.gradient, nan=0.0, posinf=0.0, neginf=0.0)
        mean = _FIRST * mean + (1 - _FIRST) * slope
        square = _SECOND * square + (1 - _SECOND) * slope.square()
        deviation = (square / (1 - _SECOND**step)).sqrt() + 1e-8
        move = mean / (1 - _FIRST**step) / deviation
        position = state.position + RATE * 0.1 ** (step / steps) * move
        state = differentiated(target, position)
        # A start without density is left by the first step that has one.
        higher = (state.log_density > best.log_density) | ~torch.isfinite(best.log_density)
        higher = higher & (state.log_density < torch.inf)
        best = choose(higher, state, best)
    return best


def settled(target: ConditionalTarget, state: GradientState, frame: Frame) -> GradientState:
    """Return where a few steps of the frame's own size and shape lead, if they lead higher.

    For a Gaussian that the frame fits, the first is at its top; a climb's last steps are far too
    long where an entry nearly follows from the others.
    """
    for _ in range(SETTLING_STEPS):
        u = frame.inward(state.position) + frame.pull(state.gradient)
        place = frame.outward(u.nan_to_num(0.0, 0.0, 0.0), state.position)
        moved = differentiated(target, place)
        higher = moved.log_density > state.log_density
        higher = higher & (moved.log_density < torch.inf)
        state = choose(higher, moved, state)
    return state
