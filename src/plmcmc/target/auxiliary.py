"""Auxiliary densities q(y_O): how far the latent chain's observed part may stray from x_O.

The target is `q(y_O) p(y_M | x_O)` in data space: `y_O` and `y_M` are independent under it, so `q`
never biases the draws; it only sets how easily latent moves are accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from plmcmc.data import Incomplete
from plmcmc.flows import row_sum


class Auxiliary(Protocol):
    """Any density over the observed entries, including your own."""

    def log_prob(self, y: Tensor, data: Incomplete) -> Tensor:
        """Return `log q(y_O)`, shape `(rows,)`, float64, from a full row `y`."""
        ...


@dataclass(frozen=True)
class NormalAuxiliary:
    """`y_O ~ N(x_O, scale^2)`, the paper's choice (its sigma_a).

    The scale is a number, or a tensor that broadcasts to `(rows, *event)`.
    """

    scale: float | Tensor = 1e-3

    def __post_init__(self) -> None:
        """Refuse a scale that is no standard deviation."""
        if not isinstance(self.scale, Tensor) and not 0 < self.scale < math.inf:
            raise ValueError(
                f"scale must be positive and finite; got {self.scale}: for an infinite one use "
                f"FlatAuxiliary()"
            )

    def log_prob(self, y: Tensor, data: Incomplete) -> Tensor:
        """Return the normal log-density of the observed entries around their values."""
        squares = torch.where(data.observed, y - data.values, 0.0).square()
        if isinstance(self.scale, Tensor):
            scale = self.scale.to(y.device).double()
            terms = squares / scale**2 + (2 * math.pi * scale**2).log()
            return -0.5 * row_sum(torch.where(data.observed, terms, 0.0))
        # One number needs no tensor, which a GPU would have to be sent at every step.
        variance = float(self.scale) ** 2
        constant = math.log(2 * math.pi * variance)
        return -0.5 * (row_sum(squares) / variance + constant * data.seen)


@dataclass(frozen=True)
class FlatAuxiliary:
    """`q = 1`: improper, the paper's "sigma_a = infinity".

    The target then has infinite mass over `y_O`, and its chain no stationary distribution for
    `y_O`; the factor for `y_M` is unaffected. The paper's guarantee holds for proper auxiliary
    densities.
    """

    def log_prob(self, y: Tensor, data: Incomplete) -> Tensor:
        """Return zeros."""
        del data
        return torch.zeros(len(y), dtype=torch.float64, device=y.device)
