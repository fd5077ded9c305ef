"""Several moves that follow no gradient, for a cycle with kernels that do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc.kernels.base import Info, decide
from plmcmc.kernels.gradient import GradientState, differentiated, gradient_passes, gradient_start
from plmcmc.kernels.hop import Hop
from plmcmc.kernels.metropolis import Metropolis
from plmcmc.kernels.proposals import Proposal
from plmcmc.rng import Streams
from plmcmc.target import Point, Target


@dataclass(frozen=True)
class Leaps:
    """Metropolis steps by each proposal in turn; only where they end is the gradient found.

    A row counts as accepted if any of them moved it; the log-ratio is that of the first. Hops that
    no row of a batch can make cost nothing but their random numbers, which other batches need.
    """

    target: Target
    proposals: Sequence[Proposal]

    exact: ClassVar[bool] = True

    def init(self, y: Tensor) -> GradientState:
        """Return the state of full rows `y`."""
        return gradient_start(self.target, y)

    def step(self, state: GradientState, streams: Streams) -> tuple[GradientState, Info]:
        """Move every row once with each proposal."""
        point = Point(state.position, state.completion, state.log_density)
        infos = []
        for proposal in self.proposals:
            if isinstance(proposal, Hop) and proposal.idle:
                infos.append(_stayed(proposal, state, streams))
                continue
            point, info = Metropolis(self.target, proposal).step(point, streams)
            infos.append(info)
        accepted = torch.stack([info.accepted for info in infos]).any(0)
        passes = sum(info.passes for info in infos)
        if passes:
            state = differentiated(self.target, point.position)
            passes += gradient_passes(self.target)
        return state, Info(accepted, infos[0].log_ratio, passes)


def _stayed(hop: Hop, state: GradientState, streams: Streams) -> Info:
    """Draw what a hop draws, and reject it for every row."""
    hop.lots(state.position, streams)
    accepted, log_ratio = decide(torch.full_like(state.log_density, -torch.inf), streams)
    return Info(accepted, log_ratio, 0)
