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
    hop loses no more in many holes than in few; a fresh draw about a mode does. Modes less than a
    width apart are one mode found twice: where there is but one, no hop is accepted.

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
        lots = self.lots(position, streams).reshape(*old.shape[:2], 2)
        row = torch.arange(len(old), device=old.device)[:, None]
        chain = torch.arange(old.shape[1], device=old.device)
        offsets, there = self._seen_from(old)
        source = _picked(there.exp(), lots[..., 0])
        goal = _picked(self._apart[row, source], lots[..., 1])
        kept = offsets[row, chain, source][..., None]
        new = self.centres[row, goal] + (self.roots[row, goal] @ kept)[..., 0]
        new = new.to(position.dtype)
        back = self._seen_from(new)[1]
        owed = back[row, chain, goal] - there[row, chain, source]
        for part in (self._log_volumes, -self._log_choices):
            owed = owed + part[row, goal] - part[row, source]
        return self.holes.scatter(new, position), owed.flatten()

    def lots(self, position: Tensor, streams: Streams) -> Tensor:
        """Draw what decides on the modes."""
        blank = torch.empty(len(position), 2, dtype=torch.float64, device=position.device)
        return streams.uniform(blank)

    @cached_property
    def idle(self) -> bool:
        """Whether every row has one mode only, so that none will ever hop."""
        return not bool(self._apart.any())

    def _seen_from(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return offsets from every mode, in its units, and how likely each is to be left (log)."""
        off = (values[:, :, None] - self.centres[:, None]) * self.holes.present[:, None, None]
        offsets = torch.einsum("rmij,rcmj->rcmi", self.inverses, off.to(self.inverses.dtype))
        return offsets, (-0.5 * offsets.square().sum(3)).log_softmax(2)

    @cached_property
    def _log_volumes(self) -> Tensor:
        """`log |det root|` of the holes of every mode, `(rows, modes)`, in float64."""
        both = (self.holes.present[:, :, None] & self.holes.present[:, None])[:, None]
        eye = torch.eye(self.roots.shape[-1], dtype=torch.float64, device=self.roots.device)
        return torch.linalg.slogdet(torch.where(both, self.roots.double(), eye)).logabsdet

    @cached_property
    def _apart(self) -> Tensor:
        """Which modes are more than a width away from which, `(rows, modes, modes)`; 1 or 0."""
        steps = self.centres[:, None] - self.centres[:, :, None]
        far = torch.einsum("rmij,rmnj->rmni", self.inverses, steps).square().sum(3) > 1
        return (far & far.mT).double()

    @cached_property
    def _log_choices(self) -> Tensor:
        """How many modes each may be left for (log), `(rows, modes)`; minus infinity if none."""
        return self._apart.sum(2).log()


def _picked(weights: Tensor, lots: Tensor) -> Tensor:
    """Return the place in the last dimension that a lot falls on."""
    sums = weights.cumsum(-1)
    return (sums <= lots[..., None] * sums[..., -1:]).sum(-1).clamp(max=weights.shape[-1] - 1)
