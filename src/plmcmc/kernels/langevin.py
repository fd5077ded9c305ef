"""Langevin moves: along the gradient, adjusted (MALA) or not (ULA, biased)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc.flows import row_sum
from plmcmc.kernels.base import Info, by_row, choose, decide, positive
from plmcmc.kernels.gradient import (
    GradientState,
    differentiated,
    gradient_passes,
    gradient_start,
)
from plmcmc.rng import Streams
from plmcmc.target import Target


@dataclass(frozen=True)
class Langevin:
    """MALA: `z' ~ N(z + step^2/2 gradient, step^2)` on the free coordinates, then a test.

    Works on either target: in latent space, or on the holes of the row itself. One step size, or
    one for each row.
    """

    target: Target
    step_size: float | Tensor

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a step that is none."""
        positive(step_size=self.step_size)

    def init(self, y: Tensor) -> GradientState:
        """Return the state of full rows `y`."""
        return gradient_start(self.target, y)

    def step(self, state: GradientState, streams: Streams) -> tuple[GradientState, Info]:
        """Move every row once."""
        step_size = by_row(self.step_size, state.position)
        proposed, noise = _moved(self.target, state, step_size, streams)
        back = (state.position - _drifted(proposed, step_size)) / step_size
        if self.target.free is not None:
            back = back * self.target.free
        correction = 0.5 * row_sum(noise.square() - back.square())
        log_ratio = proposed.log_density - state.log_density + correction
        accepted, log_ratio = decide(log_ratio, streams)
        return choose(accepted, proposed, state), Info(
            accepted, log_ratio, gradient_passes(self.target)
        )


class UnadjustedLangevin(Langevin):
    """ULA: the Langevin move without a test. **Biased**: its stationary law is not the target.

    Here for comparison; the bias vanishes only as the step does.
    """

    exact: ClassVar[bool] = False

    def step(self, state: GradientState, streams: Streams) -> tuple[GradientState, Info]:
        """Move every row once, and stay only where the flow overflows."""
        step_size = by_row(self.step_size, state.position)
        proposed, _ = _moved(self.target, state, step_size, streams)
        finite = torch.isfinite(proposed.log_density)
        log_ratio = torch.zeros_like(proposed.log_density)
        return choose(finite, proposed, state), Info(
            finite, log_ratio, gradient_passes(self.target)
        )


def _drifted(state: GradientState, step_size: float | Tensor) -> Tensor:
    return state.position + 0.5 * step_size**2 * state.gradient


def _moved(
    target: Target, state: GradientState, step_size: float | Tensor, streams: Streams
) -> tuple[GradientState, Tensor]:
    """Drift and add noise where the target may move; return the noise, too."""
    noise = streams.normal(state.position)
    if target.free is not None:
        noise = noise * target.free
    return differentiated(target, _drifted(state, step_size) + step_size * noise), noise
