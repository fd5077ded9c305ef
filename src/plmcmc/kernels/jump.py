"""Jumps between modes: independent draws from a wide Gaussian fitted to a row's chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from plmcmc.kernels.base import Info, choose, decide, row_sum
from plmcmc.kernels.frame import Frame
from plmcmc.kernels.gradient import (
    GradientState,
    differentiated,
    gradient_passes,
    gradient_start,
)
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget


@dataclass(frozen=True)
class Jump:
    """Propose `u ~ N(0, I)` in a frame that covers all of a row's modes, and test.

    The fewer holes, the more jumps are accepted.
    """

    target: ConditionalTarget
    frame: Frame

    exact: ClassVar[bool] = True

    def init(self, y: Tensor) -> GradientState:
        """Return the state of full rows `y`."""
        return gradient_start(self.target, y)

    def step(self, state: GradientState, streams: Streams) -> tuple[GradientState, Info]:
        """Try one jump for every chain."""
        old = self.frame.inward(state.position)
        new = self.frame.gather(streams.normal(state.position))
        proposed = differentiated(self.target, self.frame.outward(new, state.position))
        correction = 0.5 * row_sum((new.square() - old.square()).flatten(0, 1))
        log_ratio = proposed.log_density - state.log_density + correction
        accepted, log_ratio = decide(log_ratio, streams)
        return choose(accepted, proposed, state), Info(
            accepted, log_ratio, gradient_passes(self.target)
        )
