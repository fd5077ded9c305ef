"""Metropolis-Hastings: the paper's Algorithm 1 when the target is the projected latent one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from plmcmc.kernels.base import Info, choose, decide, finite_start
from plmcmc.kernels.proposals import Proposal
from plmcmc.rng import Streams
from plmcmc.target import Point, Target


@dataclass(frozen=True)
class Metropolis:
    """Propose, evaluate once, accept or stay: two flow passes on the latent target."""

    target: Target
    proposal: Proposal

    exact: ClassVar[bool] = True

    def init(self, y: Tensor) -> Point:
        """Return the state of full rows `y`."""
        return finite_start(self.target(self.target.start(y)))

    def propose(self, state: Point, streams: Streams) -> tuple[Point, Tensor]:
        """Return the proposed point and the log of its Metropolis-Hastings ratio."""
        position, correction = self.proposal(state.position, streams)
        proposed = self.target(position)
        return proposed, proposed.log_density - state.log_density + correction

    def step(self, state: Point, streams: Streams) -> tuple[Point, Info]:
        """Move every row once."""
        proposed, log_ratio = self.propose(state, streams)
        accepted, log_ratio = decide(log_ratio, streams)
        return choose(accepted, proposed, state), Info(accepted, log_ratio, self.target.passes)
