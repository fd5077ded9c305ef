"""Hamiltonian Monte Carlo in coordinates where the target is nearly round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc.flows import row_sum
from plmcmc.kernels.base import Info, by_row, choose, decide
from plmcmc.kernels.frame import Coordinates
from plmcmc.kernels.gradient import (
    GradientState,
    differentiated,
    gradient_passes,
    gradient_start,
)
from plmcmc.rng import Streams
from plmcmc.target import Target


@dataclass(frozen=True)
class Hamiltonian:
    """Trajectories that turn exactly with the frame's Gaussian and are kicked by the rest.

    Works on either target: on the holes of the row itself, or in latent space. The frame splits the
    potential into `|u|^2 / 2` and a remainder. Turning is exact for the first, so that on a
    Gaussian whose frame is right every proposal is accepted, whatever the step; the kicks by the
    remainder keep the integrator reversible and volume-preserving.

    Args:
        target: the density.
        frame: coordinates of the holes, or of the latents.
        step_size: `(rows,)`, angle of one turn.
        turns: `(rows,)`, turns per trajectory; the batch waits for the longest.
        low: each chain's step is drawn from `step_size * [low, high]`, against periodicity: a half
            turn would take every point to its mirror image. One number, or one for each row.
        high: see `low`.
        share: the kernel leaves `target^share gaussian^(1 - share)` invariant, with the frame's
            Gaussian; at 1, the target. Less only to anneal.
    """

    target: Target
    frame: Coordinates
    step_size: Tensor
    turns: Tensor
    low: float | Tensor = 0.5
    high: float = 1.5
    share: float = 1.0

    exact: ClassVar[bool] = True

    @cached_property
    def longest(self) -> int:
        """Turns of the longest trajectory; a GPU is asked once."""
        return int(self.turns.max())

    @cached_property
    def shortest(self) -> int:
        """Turns of the shortest trajectory."""
        return int(self.turns.min())

    def init(self, y: Tensor) -> GradientState:
        """Return the state of full rows `y`."""
        return gradient_start(self.target, y)

    def step(self, state: GradientState, streams: Streams) -> tuple[GradientState, Info]:
        """Run one trajectory for every chain."""
        # Drawn for whole rows: what a row gets must not depend on how many holes others have.
        noise = self.frame.gather(streams.normal(state.position))
        angle = self._angles(state.log_density, streams).to(noise.dtype)
        u = self.frame.inward(state.position)
        end, last, momentum = self._trajectory(state, u, noise, angle)
        kinetic = 0.5 * row_sum((noise.square() - momentum.square()).flatten(0, 1))
        log_ratio = self.share * (end.log_density - state.log_density) + kinetic
        if self.share < 1:
            gaussian = 0.5 * row_sum((u.square() - last.square()).flatten(0, 1))
            log_ratio = log_ratio + (1 - self.share) * gaussian
        accepted, log_ratio = decide(log_ratio, streams)
        passes = gradient_passes(self.target) * self.longest
        return choose(accepted, end, state), Info(accepted, log_ratio, passes)

    def _trajectory(
        self, state: GradientState, u: Tensor, momentum: Tensor, angle: Tensor
    ) -> tuple[GradientState, Tensor, Tensor]:
        """Kick by half, turn, kick by half, as often as the longest row wants."""
        for turn in range(self.longest):
            going, step = self.turns > turn, angle
            if turn >= self.shortest:
                # Rows that are done turn by nothing, and stay in the last bit.
                step = torch.where(going[:, None, None], angle, 0.0)
            kick = 0.5 * self.share * step
            momentum = momentum + kick * (u + self.frame.pull(state.gradient))
            cosine, sine = step.cos(), step.sin()
            u, momentum = u * cosine + momentum * sine, momentum * cosine - u * sine
            # A trajectory that overflowed is rejected by its momentum; some flows refuse NaN.
            place = self.frame.outward(u.nan_to_num(0.0, 0.0, 0.0), state.position)
            moved = differentiated(self.target, place)
            if turn >= self.shortest:
                moved = choose(going.repeat_interleave(u.shape[1]), moved, state)
            state = moved
            momentum = momentum + kick * (u + self.frame.pull(state.gradient))
        return state, u, momentum

    def _angles(self, like: Tensor, streams: Streams) -> Tensor:
        """Draw each chain's step, `(rows, chains, 1)`."""
        share = streams.uniform(like).reshape(len(self.step_size), -1, 1)
        low = by_row(self.low, share)
        return self.step_size[:, None, None] * (low + (self.high - low) * share)
