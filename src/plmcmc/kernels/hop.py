"""Hops from mode to mode: a chain stands in the new one as it stood in the old one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from plmcmc.kernels.frame import Holes
from plmcmc.rng import Streams


@dataclass(frozen=True)
class Hop:
    """Propose the same place in another mode, in units of the modes' own widths.

    The mode that is left is drawn by how near it is, the other one evenly. As the offset is kept, a
    hop loses no more in many holes than in few; a fresh draw about a mode does.

    Args:
        holes: where the holes are.
        centres: `(rows, modes, holes)`.
        roots: `(rows, modes, holes, holes)`; `root root^T` is about a mode's covariance.
        inverses: their inverses.
    """

    holes: Holes
    centres: Tensor
    roots: Tensor
    inverses: Tensor

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return positions in other modes, and what the moves owe."""
        old = self.holes.gather(position)
        count = self.centres.shape[1]
        blank = torch.empty(len(position), 2, dtype=torch.float64, device=position.device)
        lots = streams.uniform(blank).reshape(*old.shape[:2], 2)
        offsets, there = self._seen_from(old)
        source = (there.exp().cumsum(2) < lots[..., :1]).sum(2).clamp(max=count - 1)
        goal = (lots[..., 1] * count).long()
        row = torch.arange(len(old), device=old.device)[:, None]
        chain = torch.arange(old.shape[1], device=old.device)
        kept = offsets[row, chain, source][..., None]
        new = self.centres[row, goal] + (self.roots[row, goal] @ kept)[..., 0]
        new = new.to(position.dtype)
        back = self._seen_from(new)[1]
        owed = back[row, chain, goal] - there[row, chain, source]
        wider = self._log_volumes[row, goal] - self._log_volumes[row, source]
        return self.holes.scatter(new, position), (owed + wider).flatten()

    def _seen_from(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return offsets from every mode, in its units, and how likely each is to be left (log)."""
        off = (values[:, :, None] - self.centres[:, None]) * self.holes.present[:, None, None]
        offsets = (self.inverses[:, None] @ off.to(self.inverses.dtype)[..., None])[..., 0]
        return offsets, (-0.5 * offsets.square().sum(3)).log_softmax(2)

    @cached_property
    def _log_volumes(self) -> Tensor:
        """`log |det root|` of the holes of every mode, `(rows, modes)`, in float64."""
        both = (self.holes.present[:, :, None] & self.holes.present[:, None])[:, None]
        eye = torch.eye(self.roots.shape[-1], dtype=torch.float64, device=self.roots.device)
        return torch.linalg.slogdet(torch.where(both, self.roots.double(), eye)).logabsdet
