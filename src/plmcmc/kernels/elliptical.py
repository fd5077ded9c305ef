"""Elliptical slice sampling (Murray et al., 2010) around a normal reference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc.flows import row_sum
from plmcmc.kernels.base import Info, by_row, choose, finite_start, positive
from plmcmc.rng import Streams
from plmcmc.target import Point, Target

# How often a bracket may shrink before the row stays where it is. Staying keeps exactness: each way
# out after a given number of shrinks is reversible by itself.
SHRINKS = 40


@dataclass(frozen=True)
class EllipticalSlice:
    """Move along an ellipse through the state and a reference draw, to a point above the slice.

    There is no step to tune. The reference is `N(0, scale^2)`; what the target has beyond it (all
    of it, if the latents are not normal) is the likelihood that the slice is cut from.

    Args:
        target: the projected latent target.
        scale: deviation of the reference.
    """

    target: Target
    scale: float = 1.0

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a scale that is no deviation."""
        positive(scale=self.scale)

    def init(self, y: Tensor) -> Point:
        """Return the state of full rows `y`."""
        return finite_start(self.target(self.target.start(y)))

    def step(self, state: Point, streams: Streams) -> tuple[Point, Info]:
        """Move every row once; all rows of the batch wait for the slowest bracket."""
        noise = self.scale * streams.normal(state.position)
        # All the step may need, drawn at once: a block's stream must not depend on how many
        # tries some other block of the batch takes.
        uniform = streams.uniform(state.log_density.new_empty(len(noise), SHRINKS + 1))
        level = self._likelihood(state) + uniform[:, 0].log()
        angle = 2 * math.pi * uniform[:, 1]
        low, high = angle - 2 * math.pi, angle
        new, moved = state, torch.zeros_like(angle, dtype=torch.bool)
        tries = 0
        while True:
            proposed = self.target(_rotate(state.position, noise, angle))
            tries += 1
            height = self._likelihood(proposed)
            # An infinite density is an overflow, and none.
            above = (height > level) & torch.isfinite(height) & ~moved
            new, moved = choose(above, proposed, new), moved | above
            if tries == SHRINKS or bool(moved.all()):
                break
            low, high = torch.where(angle < 0, angle, low), torch.where(angle < 0, high, angle)
            angle = low + (high - low) * uniform[:, tries + 1]
        log_ratio = torch.zeros_like(state.log_density)
        return new, Info(moved, log_ratio, tries * self.target.passes)

    def _likelihood(self, point: Point) -> Tensor:
        """The target's density relative to the reference's."""
        return point.log_density + 0.5 * row_sum(point.position.square()) / self.scale**2


def _rotate(position: Tensor, noise: Tensor, angle: Tensor) -> Tensor:
    return position * by_row(angle.cos(), position) + noise * by_row(angle.sin(), position)
