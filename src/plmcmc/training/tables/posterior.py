"""Gaussians that few rows may have come from: draws of a mean and covariance, given what is seen.

Data augmentation: holes are drawn given a Gaussian, then a Gaussian given the completed rows.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.training.tables.copula import Copula
from plmcmc.training.tables.gaussian import AT_ONCE, Gaussian, completed_mean, conditionals

Array = NDArray[np.float64]
# With more rows for each score, what a Gaussian may be does not widen intervals by a hundredth;
# with fewer, what is drawn here would be far wider than the columns one by one.
FEW, TOO_FEW = 100, 6
# Steps before the first Gaussian that is kept, and from one to the next.
SETTLED, APART = 20, 4
# Products that all steps may take: of the widest tables it would be too many.
PRODUCTS = 2.5e9


def few_rows(rows: int, width: int) -> bool:
    """Return whether so many rows of scores leave their Gaussian uncertain, and it can be drawn."""
    return TOO_FEW * width <= rows < FEW * width and rows * width**3 <= PRODUCTS


def drawn_gaussians(found: Copula, count: int, seed: int, *, ridge: float) -> Gaussian:
    """Return Gaussians that the rows may have come from, `(count, columns)` and so on.

    `ridge` as in `expectation_maximisation`: as if so many times the rows had been seen of columns
    that have nothing to do with each other.
    """
    rng, gaussian, kept = np.random.default_rng([seed, 5]), found.gaussian, []
    for step in range(SETTLED + APART * count):
        scores = found.scores[step % len(found.scores)]
        gaussian = _given(_completed(gaussian, scores, found.observed, rng), ridge, rng)
        if step >= SETTLED and (step - SETTLED) % APART == APART - 1:
            kept.append(gaussian)
    return Gaussian(*(torch.stack(parts) for parts in zip(*kept, strict=True)))


def _completed(
    gaussian: Gaussian, scores: Tensor, observed: Tensor, rng: np.random.Generator
) -> Array:
    """Return rows whose holes are drawn."""
    rows = []
    size = max(1, AT_ONCE // scores.shape[1] ** 2)
    for x, seen in zip(scores.split(size), observed.split(size), strict=True):
        gain, root = conditionals(gaussian, seen)
        noise = torch.as_tensor(rng.normal(size=(*x.shape, 1)))
        drawn = completed_mean(gaussian, gain, x) + (root @ noise)[..., 0]
        rows.append(torch.where(seen, x, drawn))
    return torch.cat(rows).numpy()


def _given(rows: Array, ridge: float, rng: np.random.Generator) -> Gaussian:
    """Draw the Gaussian that complete rows came from.

    Column by column, in a random order: each one's regression on those before it, with as many
    degrees of freedom as rows less columns. (An inverse Wishart has the same for all, too many for
    the last or too few for the first.)
    """
    count, columns = rows.shape
    mean = rows.mean(0)
    square = (rows - mean).T @ (rows - mean)
    square[np.diag_indices(columns)] *= 1 + ridge
    freedom = count * (1 + ridge) - 1 - np.arange(columns)
    triangle = np.tril(rng.normal(size=square.shape), -1) + np.diag(rng.chisquare(freedom) ** 0.5)
    order = rng.permutation(columns)
    # The rows' root is the Gaussian's times this triangle (Bartlett's decomposition).
    own = np.linalg.cholesky(square[np.ix_(order, order)])
    root = np.empty_like(own)
    root[order] = np.linalg.solve(triangle.T, own.T).T
    mean = mean + root @ rng.normal(size=columns) / count**0.5
    return Gaussian(torch.as_tensor(mean), torch.as_tensor(root @ root.T))
