"""Proposals for tables: from a Gaussian's conditional, one pass and no gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.special import ndtri

from plmcmc.rng import Streams
from plmcmc.target import Reference

# Shares of the old innovation that a move keeps: from a fresh draw to a small step.
KEPT = (0.0, 0.5, 0.8, 0.95)
# How many ties a move redraws, on average.
TIES_MOVED = 2.0
# No score lies further out: beyond, probabilities are 0 or 1.
LARGEST = 8.0


@dataclass(frozen=True)
class Innovations:
    """Crank-Nicolson moves of a row's innovations, with a few of its ties redrawn.

    Reversible with respect to the reference, which the target has divided out: owes nothing.

    Args:
        reference: of the rows.
        chains: places of each row, side by side.
        kept: shares of the old innovation that a move may keep, one picked at random.
    """

    reference: Reference
    chains: int = 1
    kept: tuple[float, ...] = KEPT

    def start(self, streams: Streams) -> Tensor:
        """Return positions drawn from the reference."""
        low = self._places(self.reference.low.clamp(-LARGEST, LARGEST))
        known = torch.where(self._places(self.reference.tied), self._ties(streams), low)
        return torch.where(self._places(self.reference.free), streams.normal(low), known)

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return the moved positions."""
        free, tied = (self._places(m) for m in (self.reference.free, self.reference.tied))
        keep = self._kept(position, streams)
        walked = keep * position + (1 - keep.square()).sqrt() * streams.normal(position)
        rate = TIES_MOVED / tied.sum(1, keepdim=True).clamp(min=1)
        redrawn = tied & (streams.uniform(position) < rate)
        new = torch.where(redrawn, self._ties(streams), torch.where(free, walked, position))
        return new, torch.zeros(len(new), dtype=torch.float64, device=new.device)

    def _kept(self, like: Tensor, streams: Streams) -> Tensor:
        """Draw for every chain which share of its innovation it keeps."""
        shares = torch.tensor(self.kept, dtype=like.dtype, device=like.device)
        pick = (streams.uniform(like[:, :1]) * len(shares)).long()
        return shares[pick.clamp(max=len(shares) - 1)]

    def _ties(self, streams: Streams) -> Tensor:
        """Draw standard normals cut to the intervals."""
        low, high = (self._places(end) for end in self.reference.shares)
        share = low + (high - low) * streams.uniform(low)
        return ndtri(share).clamp(-LARGEST, LARGEST).to(self.reference.low.dtype)

    def _places(self, rows: Tensor) -> Tensor:
        return self.reference.places(rows, self.chains)
