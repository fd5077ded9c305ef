"""Jumps between modes: independent draws from what a row's chains have found so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from plmcmc.kernels.frame import Frame
from plmcmc.rng import Streams

# Share of the jumps that are drawn from the wide Gaussian.
WIDE = 0.5


@dataclass(frozen=True)
class Jump:
    """Propose draws of a mixture: half a wide Gaussian, half narrow ones around a row's old draws.

    The wide one covers all of a row's modes. The narrow ones hit modes that are far apart, or fill
    little of the space between. The fewer holes, the more jumps are accepted.

    Args:
        wide: a frame that covers all of a row's modes.
        narrow: a frame whose root is about as wide as a mode, and its inverse.
        centres: `(rows, draws, holes)`, old draws of the row's chains.
    """

    wide: Frame
    narrow: Frame
    centres: Tensor

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return positions that do not look at the old ones."""
        holes = self.wide.holes
        old, noise = holes.gather(position), holes.gather(streams.normal(position))
        blank = torch.empty(len(position), dtype=torch.float64, device=position.device)
        lot = streams.uniform(blank).reshape(old.shape[:2])
        # From 0 on, the number of the draw to stay near.
        number = ((lot - WIDE) / (1 - WIDE) * self.centres.shape[1]).long().clamp(min=0)
        centre = self.centres.gather(1, number[..., None].expand_as(old))
        near = centre + noise @ self.narrow.root.mT
        far = self.wide.centre[:, None] + noise @ self.wide.root.mT
        new = torch.where((lot < WIDE)[..., None], far, near)
        correction = self._log_density(old) - self._log_density(new)
        return holes.scatter(new, position), correction.flatten()

    def _log_density(self, values: Tensor) -> Tensor:
        """Return the mixture's log-density of holes, `(rows, chains)`, up to a constant."""
        far = self._within(self.wide, values).square().sum(2)
        # Not by products of matrices: what is left of large numbers would be rounding.
        exactly = "donot_use_mm_for_euclid_dist"
        places = self._within(self.narrow, values)
        near = torch.cdist(places, self._places, compute_mode=exactly).square()
        around = (-0.5 * near).logsumexp(2) - math.log(self.centres.shape[1])
        wide, narrow = (frame.log_volume[:, None] for frame in (self.wide, self.narrow))
        odds = math.log(WIDE), math.log(1 - WIDE)
        return torch.logaddexp(odds[0] - wide - 0.5 * far, odds[1] - narrow + around)

    @cached_property
    def _places(self) -> Tensor:
        """The old draws in units of the narrow frame: they stay where they are."""
        return self._within(self.narrow, self.centres)

    def _within(self, frame: Frame, values: Tensor) -> Tensor:
        """Return holes `(rows, *, holes)` in units of a frame, about the wide one's centre."""
        off = (values - self.wide.centre[:, None]) * self.wide.holes.present[:, None]
        return off.double() @ frame.inverse.double().mT
