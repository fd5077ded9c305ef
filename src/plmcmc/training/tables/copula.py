"""A Gaussian of scores of which some are known by an interval only: the Gaussian copula.

Where intervals are narrow, each score is taken to be in the middle of its own. Where they are wide
(a flag, a few levels) that would pull correlations towards nothing: scores are drawn within their
intervals instead, and the Gaussian follows the draws (stochastic approximation EM).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm
from torch import Tensor

from plmcmc.data import Regions
from plmcmc.flows import Linear
from plmcmc.kernels import differentiated, table_moves
from plmcmc.rng import Streams, generator
from plmcmc.target import TableTarget
from plmcmc.training.tables.gaussian import RIDGE, Gaussian, expectation_maximisation
from plmcmc.training.tables.references import References

# Intervals that hold more of a normal than this are wide.
WIDE = 0.05
# Steps that settle, and steps that are averaged over, each with a set of scores to keep.
SETTLED, KEPT = 20, 20
STEP, TURNS = 0.8, 2
# No column's variance is less: normal scores have about 1.
NARROW = 0.1
# Ends of regions that might as well be infinite.
FAR = 40.0


class Copula(NamedTuple):
    """A Gaussian, and scores that it was fitted to.

    Attributes:
        gaussian: of the scores.
        scores: sets of scores `(rows, columns)` within what is known of them; holes' are not to be
            read.
        observed: bool, True at what is no hole.
    """

    gaussian: Gaussian
    scores: list[Tensor]
    observed: Tensor


def copula(regions: Regions, seed: int = 0, *, ridge: float = RIDGE) -> Copula:
    """Fit a Gaussian to scores in these regions; `ridge` as in `expectation_maximisation`."""
    middle, seen = middles(regions)
    observed = seen.numpy()
    gaussian = expectation_maximisation(middle, seen, ridge=ridge)
    mass = np.where(observed, ndtr(regions.high) - ndtr(regions.low), 0.0)
    if (mass < WIDE).all():
        return Copula(gaussian, [middle], seen)
    # Middles vary less than scores do: by them alone, rare levels would all but never occur, and
    # where few rows tell of a level, too few steps follow to make up for it.
    start = Gaussian(gaussian.mean, gaussian.covariance + _left(regions, observed).diag())
    return _followed(start, middle, seen, regions, seed, ridge)


def middles(regions: Regions) -> tuple[Tensor, Tensor]:
    """Return one score for each region, 0 at holes, and where there is none."""
    observed = np.isfinite(regions.low) | np.isfinite(regions.high)
    middle = np.where(observed, _middle(regions), 0.0)
    return torch.as_tensor(middle), torch.as_tensor(observed)


def _followed(
    gaussian: Gaussian,
    scores: Tensor,
    observed: Tensor,
    regions: Regions,
    seed: int,
    ridge: float,
) -> Copula:
    """Draw scores within their intervals, and let the Gaussian follow."""
    streams = Streams([generator(seed, "copula")], [len(scores)])
    steps = torch.full((len(scores),), STEP, dtype=torch.float64)
    rows, kept = torch.arange(len(scores)), []
    with torch.no_grad():
        for step in range(SETTLED + KEPT):
            reference = References(gaussian, regions, gaussian.mean).of(rows)
            target = TableTarget(Linear.of_moments(*gaussian), reference)
            start = differentiated(target, target.start(scores))
            scores = table_moves(target, steps, TURNS).step(start, streams)[0].completion
            new = expectation_maximisation(scores, observed, start=gaussian, steps=1, ridge=ridge)
            # All of each step at first; then the mean of all since.
            share = 1 / max(1, step - SETTLED + 1)
            moved = Gaussian(*(a.lerp(b, share) for a, b in zip(gaussian, new, strict=True)))
            gaussian = _spread_out(moved)
            kept.append(scores)
    return Copula(gaussian, kept[SETTLED:], observed)


def _spread_out(gaussian: Gaussian) -> Gaussian:
    """Stretch columns that all but collapsed, about their means: thresholds stay where they are."""
    mean, covariance = gaussian
    stretch = (NARROW / covariance.diagonal()).clamp(min=1.0).sqrt()
    return Gaussian(mean, covariance * stretch * stretch[:, None])


def _left(regions: Regions, observed: NDArray[np.bool_]) -> Tensor:
    """Return the variance that standard normals have within their regions, the mean by column."""
    ends = np.clip(regions, -FAR, FAR)
    mass = ndtr(regions.high) - ndtr(regions.low)
    inside = observed & (mass > 1e-9)
    slopes = ends * norm.pdf(ends)
    within = 1 + (slopes[0] - slopes[1]) / np.where(inside, mass, 1.0) - _middle(regions) ** 2
    left = np.where(inside, within.clip(0.0), 0.0)
    return torch.as_tensor(left.sum(0) / np.maximum(observed.sum(0), 1))


def _middle(regions: Regions) -> NDArray[np.float64]:
    """Return the means of standard normals cut to their regions."""
    low, high = regions
    mass = ndtr(high) - ndtr(low)
    inside = mass > 1e-9
    cut = (norm.pdf(low) - norm.pdf(high)) / np.where(inside, mass, 1.0)
    return np.where(inside, cut, np.where(np.isfinite(low), low, 0.0))
