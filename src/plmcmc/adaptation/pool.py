"""Draws of a row's holes, pooled over its chains and over the steps of a window."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Draws of a row that are kept: more tell little more.
MOST = 256


class Pool(NamedTuple):
    """The latest draws of rows.

    Attributes:
        parts: `(rows, chains, holes)` each, step by step.
    """

    parts: tuple[Tensor, ...]

    @classmethod
    def of(cls, values: Tensor) -> Pool:
        """Take in one step: `values` `(rows, chains, holes)`."""
        return cls((values,))

    def add(self, other: Pool) -> Pool:
        """Return both together; of many steps, the last."""
        chains = self.parts[0].shape[1]
        return Pool((*self.parts, *other.parts)[-max(1, MOST // chains) :])

    @property
    def draws(self) -> int:
        """How many draws of a row there are."""
        return sum(part.shape[1] for part in self.parts)

    @property
    def mean(self) -> Tensor:
        """Mean of the holes, `(rows, holes)`, in float64."""
        return self.values.mean(1)

    @property
    def offsets(self) -> Tensor:
        """Draws less their mean, `(rows, draws, holes)`, in float64."""
        values = self.values
        return values - values.mean(1, keepdim=True)

    @property
    def covariance(self) -> Tensor:
        """Covariance of the holes, `(rows, holes, holes)`, in float64."""
        offsets = self.offsets
        return offsets.mT @ offsets / self.draws

    @property
    def values(self) -> Tensor:
        """Draws of the holes, `(rows, draws, holes)`, in float64."""
        return torch.cat(self.parts, 1).double()
