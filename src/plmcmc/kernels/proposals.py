"""Gaussian proposals: a new position together with the correction it owes.

All of them are moves `z' = keep z + spread N(0, 1)`. With `keep^2 + precision spread^2 = 1` such a
move is reversible for `N(0, 1 / precision)`, or for the whole line, where it keeps everything: what
it owes follows, and cannot be forgotten.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from plmcmc.flows import row_sum
from plmcmc.kernels.base import by_row, positive
from plmcmc.rng import Streams


class Proposal(Protocol):
    """Returns `z'` and `log g(z | z') - log g(z' | z)`."""

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Propose one move for every row."""
        ...


class Move(NamedTuple):
    """`z' = keep z + spread N(0, 1)`: numbers, or one for each row.

    Attributes:
        keep: share of the old position that stays.
        spread: deviation of what is added.
        precision: one over the variance of the normal that the move is reversible for; 0 if it is
            for the whole line.
    """

    keep: float | Tensor
    spread: float | Tensor
    precision: float | Tensor


class GaussianMove(ABC):
    """A proposal that is a Gaussian move of every row."""

    @abstractmethod
    def move(self, like: Tensor, streams: Streams) -> Move:
        """Return the move of every row of a position; it does not look at the position itself."""

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return the new position, and what the move owes."""
        move = self.move(position, streams)
        new = _added(_kept(move.keep, position), move.spread, streams.normal(position))
        if not isinstance(move.precision, Tensor) and move.precision == 0:
            return new, torch.zeros(len(new), dtype=torch.float64, device=new.device)
        squares = row_sum(torch.addcmul(new.square(), position, position, value=-1))
        return new, 0.5 * move.precision * squares


@dataclass(frozen=True)
class Perturb(GaussianMove):
    """`z' ~ N(z, scale^2)`: a small step, the paper's g_p; one scale, or one for each row."""

    scale: float | Tensor

    def __post_init__(self) -> None:
        """Refuse a scale that is no deviation."""
        positive(scale=self.scale)

    def move(self, like: Tensor, streams: Streams) -> Move:
        """Return a symmetric move, which owes nothing."""
        del like, streams
        return Move(1.0, self.scale, 0.0)


@dataclass(frozen=True)
class Resample(GaussianMove):
    """`z' ~ N(0, scale^2)`: a draw that forgets where it was, the paper's g_r."""

    scale: float

    def __post_init__(self) -> None:
        """Refuse a scale that is no deviation."""
        positive(scale=self.scale)

    def move(self, like: Tensor, streams: Streams) -> Move:
        """Return a move that keeps nothing."""
        del like, streams
        return Move(0.0, self.scale, self.scale**-2)


@dataclass(frozen=True)
class CrankNicolson(GaussianMove):
    """`z' = sqrt(1 - step^2) z + step N(0, scale^2)`: reversible for `N(0, scale^2)` (pCN).

    With normal latents and scale 1 the density of the latents cancels from the ratio, and what is
    left does not depend on the dimension. One step, or one for each row.
    """

    step: float | Tensor
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a step outside (0, 1]."""
        if not isinstance(self.step, Tensor) and not 0 < self.step <= 1:
            raise ValueError(f"step must be in (0, 1]; got {self.step}")
        positive(scale=self.scale)

    def move(self, like: Tensor, streams: Streams) -> Move:
        """Return a turn away from the old position."""
        del like, streams
        return Move((1 - self.step**2) ** 0.5, self.step * self.scale, self.scale**-2)


@dataclass(frozen=True)
class Turns(GaussianMove):
    """Crank-Nicolson moves of N(0, 1), each chain's of a length picked at random.

    Args:
        kept: shares of the old position that a move may keep, from 0 (a fresh draw) to below 1.
    """

    kept: tuple[float, ...] = (0.0, 0.5, 0.8, 0.95)

    def __post_init__(self) -> None:
        """Refuse moves that would not move."""
        if not self.kept or not all(0 <= share < 1 for share in self.kept):
            raise ValueError(f"kept must be fractions from 0 to below 1; got {self.kept}")

    def move(self, like: Tensor, streams: Streams) -> Move:
        """Return each row's turn."""
        shares = torch.tensor(self.kept, dtype=like.dtype, device=like.device)
        pick = (streams.uniform(like.flatten(1)[:, 0]) * len(shares)).long()
        keep = shares[pick.clamp(max=len(shares) - 1)]
        return Move(keep, (1 - keep.square()).sqrt(), 1.0)


@dataclass(frozen=True)
class Mixture(GaussianMove):
    """Each row picks one proposal at random and corrects for that one alone.

    The pick does not look at the state, so this is a mixture of kernels that each leave the target
    invariant: exact, with no sum over the components (the paper calls it an approximation).
    """

    proposals: Sequence[GaussianMove]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        """Refuse weights that are not one positive number per proposal."""
        others = [part for part in self.proposals if not isinstance(part, GaussianMove)]
        if others:
            raise TypeError(
                f"a mixture is of Gaussian moves (Perturb, Resample, CrankNicolson, Turns, or a "
                f"class of your own with `move`); got {type(others[0]).__name__}"
            )
        if len(self.proposals) != len(self.weights) or min(self.weights, default=0) <= 0:
            raise ValueError(
                f"one positive weight per proposal is needed; got {len(self.proposals)} proposals "
                f"and weights {list(self.weights)}"
            )

    def move(self, like: Tensor, streams: Streams) -> Move:
        """Return each row's pick."""
        *bounds, total = accumulate(self.weights)
        blank = torch.empty(len(like), dtype=torch.float64, device=like.device)
        lot = streams.uniform(blank) * total
        picked = self.proposals[0].move(like, streams)
        for proposal, bound in zip(self.proposals[1:], bounds, strict=True):
            # Whoever is beyond the next bound, too, is chosen again.
            chosen, other = lot >= bound, proposal.move(like, streams)
            pairs = zip(other, picked, strict=True)
            picked = Move(*(_picked(chosen, new, old) for new, old in pairs))
        return picked


def _picked(chosen: Tensor, new: float | Tensor, old: float | Tensor) -> float | Tensor:
    if not isinstance(new, Tensor) and not isinstance(old, Tensor) and new == old:
        return new
    if not isinstance(old, Tensor):
        # In float64: two numbers would be rounded to float32.
        old = torch.full((), old, dtype=torch.float64, device=chosen.device)
    return torch.where(chosen, new, old)


def _kept(keep: float | Tensor, position: Tensor) -> Tensor:
    if not isinstance(keep, Tensor) and keep == 1:
        return position
    return position * by_row(keep, position)


def _added(kept: Tensor, spread: float | Tensor, noise: Tensor) -> Tensor:
    if isinstance(spread, Tensor):
        return torch.addcmul(kept, noise, by_row(spread, noise))  # pyright: ignore[reportArgumentType]
    return torch.add(kept, noise, alpha=spread)
