"""A Gaussian from rows with holes: expectation-maximisation, and conditionals row by row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

RIDGE = 1e-3
STEPS, TOLERANCE = 200, 1e-4


class Gaussian(NamedTuple):
    """Mean `(columns,)` and covariance, in float64."""

    mean: Tensor
    covariance: Tensor


class Conditionals(NamedTuple):
    """`x_M = mean + gain (x - mean) + root e`, full-width matrices for each pattern of holes.

    Attributes:
        gain: `(patterns, columns, columns)`; the identity on what is seen.
        root: lower triangular factors of the conditional covariances; 0 where seen.
    """

    gain: Tensor
    root: Tensor


def conditionals(gaussian: Gaussian, observed: Tensor) -> Conditionals:
    """Return the conditionals of patterns `observed` `(patterns, columns)`."""
    precision = torch.linalg.inv(gaussian.covariance)
    eye = torch.eye(len(precision), dtype=torch.float64, device=precision.device)
    free = ~observed
    both = free[:, :, None] & free[:, None, :]
    # The precision of the holes, bordered by ones on what is seen.
    factor = torch.linalg.cholesky(torch.where(both, precision, eye))
    inverse = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    covariance = inverse.mT @ inverse
    weights = torch.where(free[:, :, None] & observed[:, None, :], precision, 0.0)
    gain = torch.where(free[:, :, None], -(covariance @ weights), eye)
    root = torch.linalg.cholesky(covariance)
    return Conditionals(gain, torch.where(both, root, 0.0))


def expectation_maximisation(
    x: Tensor, observed: Tensor, *, weights: Tensor | None = None, ridge: float = RIDGE
) -> Gaussian:
    """Fit a Gaussian to rows with holes.

    Args:
        x: `(rows, columns)`, float64; holes are not read.
        observed: bool, same shape.
        weights: of the rows; equal by default.
        ridge: share of the columns' own variance added to the covariance.
    """
    weight = torch.ones(len(x), dtype=torch.float64) if weights is None else weights.double()
    weight = (weight / weight.sum()).to(x.device)
    patterns, which = torch.unique(observed, dim=0, return_inverse=True)
    seen = observed.double()
    share = (weight[:, None] * seen).sum(0).clamp(min=1e-12)
    filled = torch.where(observed, x, 0.0)
    mean = (weight[:, None] * filled).sum(0) / share
    spread = (weight[:, None] * seen * (filled - mean).square()).sum(0) / share
    gaussian = Gaussian(mean, spread.clamp(min=1e-12).diag())
    scale = gaussian.covariance.diagonal().sqrt()
    for _ in range(STEPS):
        new = _step(gaussian, filled, patterns, which, weight, ridge)
        moved = ((new.mean - gaussian.mean) / scale).abs().max()
        turned = ((new.covariance - gaussian.covariance) / (scale[:, None] * scale)).abs().max()
        gaussian = new
        if float(torch.maximum(moved, turned)) < TOLERANCE:
            break
    return gaussian


def _step(
    gaussian: Gaussian, x: Tensor, patterns: Tensor, which: Tensor, weight: Tensor, ridge: float
) -> Gaussian:
    gain, root = conditionals(gaussian, patterns)
    filled = completed_mean(gaussian, gain[which], x)
    mean = weight @ filled
    off = filled - mean
    share = torch.zeros(len(patterns), dtype=torch.float64, device=x.device)
    share = share.index_add(0, which, weight)
    spread = (share[:, None, None] * (root @ root.mT)).sum(0)
    covariance = (weight[:, None] * off).mT @ off + spread
    return Gaussian(mean, covariance + ridge * covariance.diagonal().diag())


def completed_mean(gaussian: Gaussian, gain: Tensor, x: Tensor) -> Tensor:
    """Return rows with their holes at the conditional mean; `gain` row by row."""
    return gaussian.mean + ((x - gaussian.mean)[:, None] @ gain.mT)[:, 0]
