"""Moments of a row's holes, pooled over its chains and over the steps of a window."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Pool(NamedTuple):
    """Running sums over steps, in float64.

    Attributes:
        steps: how many were taken in.
        total: `(rows, holes)`, sum of the chains' means.
        outer: `(rows, holes, holes)`, sum of the chains' mean outer products.
        log_density: `(rows, chains)`, sum of each chain's log-density.
    """

    steps: int
    total: Tensor
    outer: Tensor
    log_density: Tensor

    @classmethod
    def of(cls, values: Tensor, log_density: Tensor) -> Pool:
        """Take in one step: `values` `(rows, chains, holes)`, `log_density` `(rows * chains,)`."""
        values = values.double()
        outer = values.mT @ values / values.shape[1]
        return cls(1, values.mean(1), outer, log_density.reshape(values.shape[:2]))

    def add(self, other: Pool) -> Pool:
        """Return both together."""
        return Pool(
            self.steps + other.steps,
            self.total + other.total,
            self.outer + other.outer,
            self.log_density + other.log_density,
        )

    @property
    def draws(self) -> int:
        """How many draws of a row were taken in."""
        return self.steps * self.log_density.shape[1]

    @property
    def mean(self) -> Tensor:
        """Mean of the holes, `(rows, holes)`."""
        return self.total / self.steps

    @property
    def covariance(self) -> Tensor:
        """Covariance of the holes, `(rows, holes, holes)`."""
        mean = self.mean
        return self.outer / self.steps - mean[:, :, None] * mean[:, None, :]

    @property
    def chain_log_density(self) -> Tensor:
        """Mean log-density of each chain, `(rows, chains)`."""
        return self.log_density / self.steps


def relocate(pool: Pool, lost: float, uniform: Tensor) -> Tensor:
    """Return, for every place of the batch, the place whose state it is to go on from.

    A chain whose mean log-density is `lost` nats below its row's best goes on from one of the
    others at random; all others go on from where they are.

    Args:
        pool: what the chains did.
        lost: how far below is too far.
        uniform: `(rows * chains,)`, one number per place.
    """
    heights = pool.chain_log_density
    rows, chains = heights.shape
    good = heights >= heights.amax(1, keepdim=True) - lost
    order = (~good).to(torch.uint8).argsort(dim=1, stable=True)
    nth = (uniform.reshape(rows, chains) * good.sum(1, keepdim=True)).long()
    own = torch.arange(chains, device=good.device).expand(rows, -1)
    chosen = torch.where(good, own, order.gather(1, nth))
    return (chosen + chains * torch.arange(rows, device=good.device)[:, None]).flatten()
