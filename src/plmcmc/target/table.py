"""A table's target: a flow's density of scores, in coordinates where a Gaussian's is round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.special import ndtr, ndtri

from plmcmc.flows import Flow, log_prob
from plmcmc.target.point import Point

# No score lies further out: beyond, probabilities are 0 or 1.
LARGEST = 8.0


@dataclass(frozen=True, eq=False)
class GaussianReference:
    """What is known of rows' scores, and a Gaussian's conditional of the rest.

    Under it every coordinate of a position is standard normal: of a hole the innovation, of a score
    known to lie in an interval the normal score of its share of the interval. Coordinates of
    scores that are known mean nothing.

    Attributes:
        low: `(rows, columns)`, lower ends of where scores may lie.
        high: upper ends; the same where a score is known.
        mean: `(columns,)`, the Gaussian's; or `(places, columns)`, if each of a row's chains has
            a Gaussian of its own.
        gain: `(rows, columns, columns)`, or `(rows, places, columns, columns)`: from what is seen
            to the holes' mean; 0 from the holes.
        root: likewise, factor of the holes' conditional covariance; 0 where seen.
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
    def ties(self) -> Tensor:
        """Places of the columns that have intervals; the others are spared the work."""
        return self.tied.any(0).nonzero()[:, 0]

    def outward(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores, and log of the density of coordinates over that of scores.

        Of a hole both are the reference's own, and cancel; of an interval it is the slope up to a
        constant; of a known score, the density of the coordinate that means nothing.
        """
        u = position.reshape(len(self.low), -1, position.shape[1])
        seen = self._known[:, None].expand_as(u)
        if len(self.ties):
            inside = _Within.apply(u[..., self.ties], *(end[:, None] for end in self._intervals))
            seen = seen.index_copy(2, self.ties, inside)
        volume = 0.5 * ((seen.square() - u.square()) * self._seen[:, None])
        # Of holes any number will do: the gain does not look at them.
        filled = self.mean + _times(self.gain, seen - self.mean) + _times(self.root, u)
        scores = torch.where(self.free[:, None], filled, seen)
        return scores.reshape(position.shape), volume.sum(2, dtype=torch.float64).flatten()

    def inward(self, scores: Tensor) -> Tensor:
        """Return the position of scores; 0 where they are known."""
        full = scores.reshape(len(self.low), -1, scores.shape[1])
        off = full - self.mean
        seen = torch.where(self.free[:, None], 0.0, off)
        off = torch.where(self.free[:, None], off - _times(self.gain, seen), 0.0)
        # Bordered by ones on what is seen, where the root is 0.
        border = (~self.free).to(self.root.dtype).diag_embed()
        if self.root.dim() == 3:
            root = self.root + border
            found = torch.linalg.solve_triangular(root, off.mT, upper=False).mT
        else:
            root = self.root + border[:, None]
            found = torch.linalg.solve_triangular(root, off[..., None], upper=False)[..., 0]
        low, high = (ndtr(end.double())[:, None] for end in (self.low, self.high))
        share = (ndtr(full.double()) - low) / (high - low)
        within = ndtri(share).clamp(-LARGEST, LARGEST).to(scores.dtype)
        return torch.where(self.tied[:, None], within, found).reshape(scores.shape)

    @cached_property
    def _known(self) -> Tensor:
        return torch.where(self.free, 0.0, self.low)

    @cached_property
    def _seen(self) -> Tensor:
        return (~self.free).to(self.low.dtype)

    @cached_property
    def _intervals(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Probability below each interval and in it, and its ends; of points, and of everything."""
        low, high = self.low[:, self.ties], self.high[:, self.ties]
        below, above = ndtr(low.double()), ndtr(high.double())
        near = low.clamp(-LARGEST, LARGEST)
        return below, above - below, near, torch.maximum(near, high.clamp(-LARGEST, LARGEST))


def _times(matrix: Tensor, vectors: Tensor) -> Tensor:
    """Return each row's matrix, or that of each of its places, times its `(places, columns)`."""
    if matrix.dim() == 3:
        return vectors @ matrix.mT
    return (matrix @ vectors[..., None])[..., 0]


class _Within(torch.autograd.Function):
    """Scores of which coordinates say where in their intervals they are; slopes in closed form."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, below: Tensor, mass: Tensor, low: Tensor, high: Tensor
    ) -> Tensor:
        """Return the scores; rounding must not lead out of the interval, nor to infinity."""
        score = ndtri(below + mass * ndtr(u.double())).to(u.dtype)
        score = torch.minimum(torch.maximum(score, low), high)
        ctx.save_for_backward(u, score, mass)
        return score

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the gradient by coordinates."""
        u, score, mass = ctx.saved_tensors
        slope = mass * (0.5 * (score.square() - u.square()).double()).exp()
        return gradient * slope.to(gradient.dtype), None, None, None, None


@dataclass(frozen=True)
class TableTarget:
    """The flow's density of completed scores, by the coordinates of a reference.

    Known scores' coordinates are standard normal too: they move, and nothing follows.

    Args:
        flow: of scores.
        reference: of the rows, whose chains stand side by side.
    """

    flow: Flow
    reference: GaussianReference

    passes: ClassVar[int] = 1

    @property
    def free(self) -> None:
        """None: everything may move."""

    def start(self, y: Tensor) -> Tensor:
        """Return the position of scores `y`, what is known put in."""
        low, high = self.reference.low, self.reference.high
        rows = y.reshape(len(low), -1, y.shape[1]).clamp(low[:, None], high[:, None])
        return self.reference.inward(rows.reshape(y.shape))

    def __call__(self, position: Tensor) -> Point:
        """Complete the rows and encode."""
        completion, volume = self.reference.outward(position)
        return Point(position, completion, log_prob(self.flow, completion) + volume)
