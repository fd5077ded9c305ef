"""Proposals: a new position together with the correction it owes, which cannot be forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from plmcmc.kernels.base import by_row, choose_rows, positive, row_sum
from plmcmc.rng import Streams


class Proposal(Protocol):
    """Returns `z'` and `log g(z | z') - log g(z' | z)`."""

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Propose one move for every row."""
        ...


@dataclass(frozen=True)
class Perturb:
    """`z' ~ N(z, scale^2)`: a small step, the paper's g_p; one scale, or one for each row."""

    scale: float | Tensor

    def __post_init__(self) -> None:
        """Refuse a scale that is no deviation."""
        positive(scale=self.scale)

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return the perturbed position; the move is symmetric and owes nothing."""
        new = position + by_row(self.scale, position) * streams.normal(position)
        return new, torch.zeros(len(new), dtype=torch.float64, device=new.device)


@dataclass(frozen=True)
class Resample:
    """`z' ~ N(0, scale^2)`: a draw that forgets where it was, the paper's g_r."""

    scale: float

    def __post_init__(self) -> None:
        """Refuse a scale that is no deviation."""
        positive(scale=self.scale)

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return a fresh position."""
        new = self.scale * streams.normal(position)
        return new, 0.5 * row_sum(new.square() - position.square()) / self.scale**2


@dataclass(frozen=True)
class CrankNicolson:
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

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return the rotated position."""
        noise = self.scale * streams.normal(position)
        step = by_row(self.step, position)
        new = (1 - step**2) ** 0.5 * position + step * noise
        return new, 0.5 * row_sum(new.square() - position.square()) / self.scale**2


@dataclass(frozen=True)
class Turns:
    """Crank-Nicolson moves of N(0, 1), each chain's of a length picked at random.

    Args:
        kept: shares of the old position that a move may keep, from 0 (a fresh draw) to below 1.
    """

    kept: tuple[float, ...] = (0.0, 0.5, 0.8, 0.95)

    def __post_init__(self) -> None:
        """Refuse moves that would not move."""
        if not self.kept or not all(0 <= share < 1 for share in self.kept):
            raise ValueError(f"kept must be shares from 0 to below 1; got {self.kept}")

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return the turned position."""
        shares = torch.tensor(self.kept, dtype=position.dtype, device=position.device)
        pick = (streams.uniform(position[:, :1]) * len(shares)).long()
        keep = shares[pick.clamp(max=len(shares) - 1)]
        new = keep * position + (1 - keep.square()).sqrt() * streams.normal(position)
        return new, 0.5 * row_sum(new.square() - position.square())


@dataclass(frozen=True)
class Mixture:
    """Each row picks one proposal at random and corrects for that one alone.

    The pick does not look at the state, so this is a mixture of kernels that each leave the target
    invariant: exact, with no sum over the components (the paper calls it an approximation).
    """

    proposals: Sequence[Proposal]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        """Refuse weights that are not one positive number per proposal."""
        if len(self.proposals) != len(self.weights) or min(self.weights, default=0) <= 0:
            raise ValueError(
                f"one positive weight per proposal is needed; got {len(self.proposals)} proposals "
                f"and weights {list(self.weights)}"
            )

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return each row's pick."""
        *bounds, total = accumulate(self.weights)
        like = torch.empty(len(position), dtype=torch.float64, device=position.device)
        lot = streams.uniform(like) * total
        new, correction = self.proposals[0](position, streams)
        for proposal, bound in zip(self.proposals[1:], bounds, strict=True):
            # Whoever is beyond the next bound, too, is chosen again.
            chosen = lot >= bound
            other, other_correction = proposal(position, streams)
            new = choose_rows(chosen, other, new)
            correction = torch.where(chosen, other_correction, correction)
        return new, correction
