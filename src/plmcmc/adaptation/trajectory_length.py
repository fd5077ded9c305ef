"""How far trajectories must turn: until draws have forgotten the ones before."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# What draws may keep of the ones before, for this share of a batch's holes.
KEPT, SHARE = 0.5, 0.9
# How much further trajectories go at most.
LONGEST = 4.0


class Memory(NamedTuple):
    """Running sums over neighbouring draws of chains, `(rows, holes)` each, in float64.

    Attributes:
        last: `(rows, chains, holes)`, the latest draws.
        product: of draws and the ones before.
        total: of both.
        square: of both squared.
        pairs: how many pairs of draws each row has had.
    """

    last: Tensor
    product: Tensor
    total: Tensor
    square: Tensor
    pairs: int

    @classmethod
    def of(cls, values: Tensor) -> Memory:
        """Begin with some draws `(rows, chains, holes)`."""
        values = values.double()
        nothing = torch.zeros_like(values[:, 0])
        return cls(values, nothing, nothing, nothing, 0)

    def add(self, values: Tensor) -> Memory:
        """Take in the draws that came next."""
        values = values.double()
        return Memory(
            values,
            self.product + (values * self.last).sum(1),
            self.total + (values + self.last).sum(1),
            self.square + (values.square() + self.last.square()).sum(1),
            self.pairs + values.shape[1],
        )

    @property
    def correlation(self) -> Tensor:
        """Of neighbouring draws, `(rows, holes)`; NaN where nothing moved, or there are no pairs.

        About the mean of all chains, so that chains in different places count as unforgotten.
        """
        mean = self.total / (2 * self.pairs)
        return (self.product / self.pairs - mean**2) / (self.square / (2 * self.pairs) - mean**2)


def further(correlation: Tensor) -> float:
    """Return how many times as far trajectories should turn, from 1 to `LONGEST`.

    A direction that a trajectory turns by an angle `a` keeps a correlation of `cos a`. The frame
    means `a` to be the same everywhere; where draws spread further than it says it is less. This is
    the factor after which most holes keep no more than `KEPT`.
    """
    seen = correlation[torch.isfinite(correlation)]
    if len(seen) == 0:
        return 1.0
    # Not torch.quantile, which refuses more than 16 million numbers.
    place = max(1, math.ceil(SHARE * len(seen)))
    angle = math.acos(float(seen.kthvalue(place).values.clamp(-1.0, 1.0)))
    wanted = math.acos(KEPT)
    return wanted / min(max(angle, wanted / LONGEST), wanted)
