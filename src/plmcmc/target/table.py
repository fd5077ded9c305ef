"""A table's target: the flow's density over that of a Gaussian's conditional, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor
from torch.special import ndtr

from plmcmc.flows import Flow, log_prob
from plmcmc.target.point import Point


@dataclass(frozen=True, eq=False)
class Reference:
    """What is known of rows' scores, and a Gaussian's conditional of the rest.

    Attributes:
        low: `(rows, columns)`, lower ends of where scores may lie.
        high: upper ends; the same where a score is known.
        mean: `(columns,)`, the Gaussian's.
        gain: `(rows, columns, columns)`, from what is seen to the holes' mean.
        root: factor of the holes' conditional covariance; 0 where seen.
    """

    low: Tensor
    high: Tensor
    mean: Tensor
    gain: Tensor
    root: Tensor

    @cached_property
    def free(self) -> Tensor:
        """True at holes."""
        return torch.isinf(self.low) & torch.isinf(self.high)

    @cached_property
    def tied(self) -> Tensor:
        """True where a score may lie anywhere in an interval."""
        return (self.low < self.high) & ~self.free

    @cached_property
    def moving(self) -> Tensor:
        """True where anything may move."""
        return self.free | self.tied

    @cached_property
    def shares(self) -> tuple[Tensor, Tensor]:
        """Probabilities of the ends, under a standard normal."""
        return ndtr(self.low.double()), ndtr(self.high.double())

    def places(self, rows: Tensor, chains: int) -> Tensor:
        """Return numbers of rows, for each of their chains."""
        return rows.repeat_interleave(chains, 0) if chains > 1 else rows

    def outward(self, position: Tensor) -> Tensor:
        """Return scores of which the holes' innovations are given, and all others themselves."""
        mixed = self._by_row(position)
        seen = torch.where(self.free[:, None], 0.0, mixed - self.mean)
        innovation = torch.where(self.free[:, None], mixed, 0.0)
        off = seen @ self.gain.mT + innovation @ self.root.mT
        return torch.where(self.free[:, None], self.mean + off, mixed).reshape(position.shape)

    def inward(self, scores: Tensor) -> Tensor:
        """Return the innovations of the holes, and all others themselves."""
        full = self._by_row(scores)
        off = full - self.mean
        seen = torch.where(self.free[:, None], 0.0, off)
        off = torch.where(self.free[:, None], off - seen @ self.gain.mT, 0.0)
        # Bordered by ones on what is seen, where the root is 0.
        root = self.root + (~self.free).to(self.root.dtype).diag_embed()
        found = torch.linalg.solve_triangular(root, off.mT, upper=False).mT
        return torch.where(self.free[:, None], found, full).reshape(scores.shape)

    def _by_row(self, places: Tensor) -> Tensor:
        return places.reshape(len(self.low), -1, places.shape[1])


@dataclass(frozen=True)
class TableTarget:
    """The flow's density over the reference's.

    A position holds the innovations of a row's holes and the scores of all else. Under the
    reference innovations are normal, and tied scores normal and cut to their interval: moves that
    leave it invariant need no other correction than this ratio.

    Args:
        flow: of scores.
        reference: of the rows.
        chains: places of each row, side by side.
    """

    flow: Flow
    reference: Reference
    chains: int = 1

    passes: ClassVar[int] = 1

    @property
    def free(self) -> Tensor:
        """True where a position may move."""
        return self.reference.places(self.reference.moving, self.chains)

    def start(self, y: Tensor) -> Tensor:
        """Return the position of scores `y`, what is known put in."""
        reference = self.reference
        ends = (reference.low, reference.high)
        low, high = (reference.places(end, self.chains).to(y) for end in ends)
        return reference.inward(y.clamp(low, high))

    def __call__(self, position: Tensor) -> Point:
        """Complete the rows and encode."""
        completion = self.reference.outward(position)
        moving = torch.where(self.free, position, 0.0)
        log_reference = -0.5 * moving.square().sum(1, dtype=torch.float64)
        return Point(position, completion, log_prob(self.flow, completion) - log_reference)
