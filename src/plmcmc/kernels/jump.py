"""Jumps between modes: independent draws from a wide Gaussian fitted to a row's chains."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plmcmc.flows import row_sum
from plmcmc.kernels.frame import Frame
from plmcmc.rng import Streams


@dataclass(frozen=True)
class Jump:
    """Propose `u ~ N(0, I)` in a frame that covers all of a row's modes.

    The fewer holes, the more jumps are accepted.
    """

    frame: Frame

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return positions that do not look at the old ones."""
        old = self.frame.inward(position)
        new = self.frame.gather(streams.normal(position))
        correction = 0.5 * row_sum((new.square() - old.square()).flatten(0, 1))
        return self.frame.outward(new, position), correction
