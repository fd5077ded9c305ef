"""Metropolis-Hastings: the paper's Algorithm 1 when the target is the projected latent one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from plmcmc.kernels.base import Info, choose, decide, finite_start
from plmcmc.kernels.gradient import GradientState, differentiated, gradient_passes
from plmcmc.kernels.proposals import Proposal
from plmcmc.rng import Streams
from plmcmc.target import Point, Target


@dataclass(frozen=True)
class Metropolis:
    """Propose, evaluate once, accept or stay: two flow passes on the latent target.

    Args:
        target: the density.
        proposal: of new positions.
        gradient: whether states carry the gradient, for a cycle with kernels that follow it.
    """

    target: Target
    proposal: Proposal
    gradient: bool = False

    exact: ClassVar[bool] = True

    def init(self, y: Tensor) -> Point | GradientState:
        """Return the state of full rows `y`."""
        return finite_start(self._at(self.target.start(y)))

    def propose(
        self, state: Point | GradientState, streams: Streams
    ) -> tuple[Point | GradientState, Tensor]:
        """Return the proposed point and the log of its Metropolis-Hastings ratio."""
        position, correction = self.proposal(state.position, streams)
        proposed = self._at(position)
        return proposed, proposed.log_density - state.log_density + correction

    def step(
        self, state: Point | GradientState, streams: Streams
    ) -> tuple[Point | GradientState, Info]:
        """Move every row once."""
        proposed, log_ratio = self.propose(state, streams)
        accepted, log_ratio = decide(log_ratio, streams)
        passes = gradient_passes(self.target) if self.gradient else self.target.passes
        return choose(accepted, proposed, state), Info(accepted, log_ratio, passes)

    def _at(self, position: Tensor) -> Point | GradientState:
        return differentiated(self.target, position) if self.gradient else self.target(position)
