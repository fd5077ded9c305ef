"""States that carry a gradient, for kernels that follow it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from plmcmc.kernels.base import finite_start
from plmcmc.target import Target, differentiate


class GradientState(NamedTuple):
    """A point and the gradient of the log-density there."""

    position: Tensor
    completion: Tensor
    log_density: Tensor
    gradient: Tensor


def differentiated(target: Target, position: Tensor) -> GradientState:
    """Return the point at `position` with its gradient."""
    point, gradient = differentiate(target, position)
    return GradientState(*point, gradient)


def gradient_start(target: Target, y: Tensor) -> GradientState:
    """Return the state of full rows `y`, or raise if a chain could never leave it."""
    return finite_start(differentiated(target, target.start(y)))


def gradient_passes(target: Target) -> int:
    """Return what a value and its gradient cost: a gradient counts as two passes more."""
    return 3 * target.passes
