"""Langevin moves: along the gradient, adjusted (MALA) or not (ULA, biased)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from plmcmc.kernels.base import Info, choose, decide, finite_start, row_sum
from plmcmc.rng import Streams
from plmcmc.target import Target, differentiate


class GradientState(NamedTuple):
    """A point and the gradient of the log-density there."""

    position: Tensor
    completion: Tensor
    log_density: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class Langevin:
    """MALA: `z' ~ N(z + step^2/2 gradient, step^2)` on the free coordinates, then a test.

    Works on either target: in latent space, or on the holes of the row itself.
    """

    target: Target
    step_size: float

    exact: ClassVar[bool] = True

    def init(self, y: Tensor) -> GradientState:
        """Return the state of full rows `y`."""
        return finite_start(differentiated(self.target, self.target.start(y)))

    def step(self, state: GradientState, streams: Streams) -> tuple[GradientState, Info]:
        """Move every row once."""
        noise = _free_noise(self.target, state.position, streams)
        position = _drifted(state, self.step_size) + self.step_size * noise
        proposed = differentiated(self.target, position)
        back = (state.position - _drifted(proposed, self.step_size)) / self.step_size
        if self.target.free is not None:
            back = back * self.target.free
        correction = 0.5 * row_sum(noise.square() - back.square())
        log_ratio = proposed.log_density - state.log_density + correction
        accepted, log_ratio = decide(log_ratio, streams)
        return choose(accepted, proposed, state), Info(accepted, log_ratio, _cost(self.target))


@dataclass(frozen=True)
class UnadjustedLangevin:
    """ULA: the Langevin move without a test. **Biased**: its stationary law is not the target.

    Here for comparison; the bias vanishes only as the step does.
    """

    target: Target
    step_size: float

    exact: ClassVar[bool] = False

    def init(self, y: Tensor) -> GradientState:
        """Return the state of full rows `y`."""
        return finite_start(differentiated(self.target, self.target.start(y)))

    def step(self, state: GradientState, streams: Streams) -> tuple[GradientState, Info]:
        """Move every row once, and stay only where the flow overflows."""
        noise = _free_noise(self.target, state.position, streams)
        position = _drifted(state, self.step_size) + self.step_size * noise
        proposed = differentiated(self.target, position)
        finite = torch.isfinite(proposed.log_density)
        log_ratio = torch.zeros_like(proposed.log_density)
        return choose(finite, proposed, state), Info(finite, log_ratio, _cost(self.target))


def differentiated(target: Target, position: Tensor) -> GradientState:
    """Return the point at `position` with its gradient."""
    point, gradient = differentiate(target, position)
    return GradientState(*point, gradient)


def _drifted(state: GradientState, step_size: float) -> Tensor:
    return state.position + 0.5 * step_size**2 * state.gradient


def _free_noise(target: Target, position: Tensor, streams: Streams) -> Tensor:
    noise = streams.normal(position)
    return noise if target.free is None else noise * target.free


def _cost(target: Target) -> int:
    """Passes of a value and its gradient."""
    return 3 * target.passes
