"""Moments of a row's holes, pooled over its chains and over the steps of a window."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Pool(NamedTuple):
    """Running sums over steps, in float64.

    Attributes:
        steps: how many were taken in.
        total: `(rows, holes)`, sum of the chains' means.
        outer: `(rows, holes, holes)`, sum of the chains' mean outer products.
        chains: how many chains each row has.
    """

    steps: int
    total: Tensor
    outer: Tensor
    chains: int

    @classmethod
    def of(cls, values: Tensor) -> Pool:
        """Take in one step: `values` `(rows, chains, holes)`."""
        values = values.double()
        outer = values.mT @ values / values.shape[1]
        return cls(1, values.mean(1), outer, values.shape[1])

    def add(self, other: Pool) -> Pool:
        """Return both together."""
        return Pool(
            self.steps + other.steps,
            self.total + other.total,
            self.outer + other.outer,
            self.chains,
        )

    @property
    def draws(self) -> int:
        """How many draws of a row were taken in."""
        return self.steps * self.chains

    @property
    def mean(self) -> Tensor:
        """Mean of the holes, `(rows, holes)`."""
        return self.total / self.steps

    @property
    def covariance(self) -> Tensor:
        """Covariance of the holes, `(rows, holes, holes)`."""
        mean = self.mean
        return self.outer / self.steps - mean[:, :, None] * mean[:, None, :]
