"""The conditional density itself, over completed rows: one pass, no auxiliary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from plmcmc.data import Incomplete
from plmcmc.flows import Flow, log_prob
from plmcmc.target.point import Point


@dataclass(frozen=True)
class ConditionalTarget:
    """`log p(y_M; x_O)`: positions are completed rows, and only their holes move."""

    flow: Flow
    data: Incomplete

    passes: ClassVar[int] = 1

    @property
    def free(self) -> Tensor:
        """True at the holes."""
        return ~self.data.observed

    def start(self, y: Tensor) -> Tensor:
        """Return `y` with the observed values put in."""
        return self.data.project(y)

    def __call__(self, position: Tensor) -> Point:
        """Put the observed values in and encode."""
        completion = self.data.project(position)
        return Point(completion, completion, log_prob(self.flow, completion))
