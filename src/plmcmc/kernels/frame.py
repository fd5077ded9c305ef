"""Coordinates in which what a chain walks on is nearly round: of a row's holes, or of latents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor


class Coordinates(Protocol):
    """What Hamiltonian moves ask: `u` `(rows, chains, entries)` of positions, and back."""

    def gather(self, numbers: Tensor) -> Tensor:
        """Return the entries that move, of numbers in the shape of positions."""
        ...

    def inward(self, y: Tensor) -> Tensor:
        """Return `u` of positions."""
        ...

    def outward(self, u: Tensor, y: Tensor) -> Tensor:
        """Return positions at `u`; what does not move is taken from `y`."""
        ...

    def pull(self, gradient: Tensor) -> Tensor:
        """Return the gradient with respect to `u` from that with respect to positions."""
        ...


@dataclass(frozen=True)
class Scaled:
    """All of a position, in units of `scale`: the coordinates of latents.

    Attributes:
        rows: how many rows there are, their chains side by side.
        scale: one unit, or one for each entry.
    """

    rows: int
    scale: Tensor

    def gather(self, numbers: Tensor) -> Tensor:
        """Return all of them, row by row."""
        return numbers.reshape(self.rows, -1, numbers[0].numel())

    def inward(self, y: Tensor) -> Tensor:
        """Return the positions in units."""
        return self.gather(y) / self.scale

    def outward(self, u: Tensor, y: Tensor) -> Tensor:
        """Return the positions; all of them move."""
        return (u * self.scale).reshape(y.shape)

    def pull(self, gradient: Tensor) -> Tensor:
        """Return the gradient by units."""
        return self.gather(gradient) * self.scale


@dataclass(frozen=True)
class Free:
    """A position as it is, of which only the holes move: where entries are nearly normal already.

    Attributes:
        rows: how many rows there are, their chains side by side.
        holes: bool, shape of positions, True where they move.
    """

    rows: int
    holes: Tensor

    def gather(self, numbers: Tensor) -> Tensor:
        """Return what stands at the holes, and zero elsewhere."""
        return torch.where(self.holes, numbers, 0.0).reshape(self.rows, -1, numbers[0].numel())

    def inward(self, y: Tensor) -> Tensor:
        """Return the holes' own values."""
        return self.gather(y)

    def outward(self, u: Tensor, y: Tensor) -> Tensor:
        """Return `y` with its holes at `u`."""
        return torch.where(self.holes, u.reshape(y.shape), y)

    def pull(self, gradient: Tensor) -> Tensor:
        """Return the gradient at the holes."""
        return self.gather(gradient)


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

    @cached_property
    def most(self) -> int:
        """Most holes that one of the rows has: what places hold beyond is padding."""
        return int(self.present.sum(1).max())

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

    @cached_property
    def log_volume(self) -> Tensor:
        """`log |det root|` of each row's holes, `(rows,)`, in float64."""
        both = self.holes.present[:, :, None] & self.holes.present[:, None, :]
        eye = torch.eye(self.root.shape[1], dtype=torch.float64, device=self.root.device)
        return torch.linalg.slogdet(torch.where(both, self.root.double(), eye)).logabsdet

    def gather(self, numbers: Tensor) -> Tensor:
        """Return what stands at the holes."""
        return self.holes.gather(numbers)

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
