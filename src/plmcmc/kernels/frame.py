"""Coordinates of a row's holes in which its conditional is nearly round."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Holes:
    """Where each row's holes are, for rows that stand side by side `chains` times in a batch.

    Attributes:
        places: `(rows, holes)`, flat places of the holes; padding repeats the row's first one.
        present: bool `(rows, holes)`, False at the padding.
    """

    places: Tensor
    present: Tensor

    @classmethod
    def of(cls, observed: Tensor, width: int) -> Holes:
        """List the holes of `observed` `(rows, *event)`, padded to `width`."""
        free = (~observed).flatten(1)
        places = (~free).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        present = torch.arange(width, device=places.device) < free.sum(1)[:, None]
        return cls(torch.where(present, places, places[:, :1]), present)

    def gather(self, y: Tensor) -> Tensor:
        """Return the holes of full rows, `(rows, chains, holes)`; zero at the padding."""
        flat, index = self._by_row(y)
        return flat.gather(2, index) * self.present[:, None]

    def scatter(self, values: Tensor, y: Tensor) -> Tensor:
        """Return full rows `y` with the holes replaced."""
        flat, index = self._by_row(y)
        # Padding points at the first hole, and must write there what is written there anyway.
        padded = torch.where(self.present[:, None], values, values[..., :1])
        kept = torch.where(self.present[:, None, :1], padded, flat.gather(2, index))
        return flat.scatter(2, index, kept).reshape(y.shape)

    def _by_row(self, y: Tensor) -> tuple[Tensor, Tensor]:
        flat = y.reshape(len(self.places), -1, y[0].numel())
        return flat, self.places[:, None].expand(-1, flat.shape[1], -1)


@dataclass(frozen=True)
class Frame:
    """`y_M = centre + root u`: one frame per row, shared by the row's chains.

    Attributes:
        holes: where the holes are.
        centre: `(rows, holes)`.
        root: `(rows, holes, holes)`; `root root^T` is about the conditional's covariance.
        inverse: its inverse.
    """

    holes: Holes
    centre: Tensor
    root: Tensor
    inverse: Tensor

    def inward(self, y: Tensor) -> Tensor:
        """Return `u` `(rows, chains, holes)` of full rows `y`."""
        offset = (self.holes.gather(y) - self.centre[:, None]) * self.holes.present[:, None]
        return offset @ self.inverse.mT

    def outward(self, u: Tensor, y: Tensor) -> Tensor:
        """Return `y` with its holes at `u`; what is not a hole stays."""
        return self.holes.scatter(self.centre[:, None] + u @ self.root.mT, y)

    def pull(self, gradient: Tensor) -> Tensor:
        """Return the gradient with respect to `u` from that with respect to `y`."""
        return self.holes.gather(gradient) @ self.root
