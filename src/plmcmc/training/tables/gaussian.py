"""A Gaussian from rows with holes: expectation-maximisation, and conditionals row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

RIDGE = 1e-3
STEPS, TOLERANCE = 200, 1e-4
# Least eigenvalue of correlations, as a share of the largest.
SINGULAR = 1e-7
# Numbers in the matrices of the patterns that are worked on at once.
AT_ONCE = 2**23
# Columns whose flags fit into one whole number.
CODED = 62


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
    gain, covariance = _moments(precision_of(gaussian.covariance), observed)
    both = ~observed[:, :, None] & ~observed[:, None, :]
    return Conditionals(gain, torch.where(both, torch.linalg.cholesky(covariance), 0.0))


def precision_of(covariance: Tensor) -> Tensor:
    """Return the inverse; correlations that leave next to nothing free are loosened a little."""
    scale = covariance.diagonal().sqrt()
    values, vectors = torch.linalg.eigh(covariance / (scale * scale[:, None]))
    safe = values.clamp(min=SINGULAR * float(values[-1]))
    return (vectors / safe) @ vectors.mT / (scale * scale[:, None])


def _moments(precision: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Return gains, and covariances of the holes bordered by ones on what is seen."""
    eye = torch.eye(len(precision), dtype=torch.float64, device=precision.device)
    free = ~observed
    both = free[:, :, None] & free[:, None, :]
    covariance = torch.cholesky_inverse(torch.linalg.cholesky(torch.where(both, precision, eye)))
    weights = torch.where(free[:, :, None] & observed[:, None, :], precision, 0.0)
    return torch.where(free[:, :, None], -(covariance @ weights), eye), covariance


def expectation_maximisation(
    x: Tensor,
    observed: Tensor,
    *,
    weights: Tensor | None = None,
    start: Gaussian | None = None,
    ridge: float = RIDGE,
    tolerance: float = TOLERANCE,
    steps: int = STEPS,
) -> Gaussian:
    """Fit a Gaussian to rows with holes.

    Args:
        x: `(rows, columns)`, float64; holes are not read.
        observed: bool, same shape.
        weights: of the rows; equal by default.
        start: where to begin; by default from the columns one by one.
        ridge: correlations are divided by one more than this.
        tolerance: largest change of a step, in deviations, at which to stop.
        steps: after how many to stop in any case.
    """
    weight = torch.ones(len(x), dtype=torch.float64) if weights is None else weights.double()
    weight = (weight / weight.sum()).to(x.device)
    seen = observed.double()
    share = (weight[:, None] * seen).sum(0).clamp(min=1e-12)
    filled = torch.where(observed, x, 0.0)
    mean = (weight[:, None] * filled).sum(0) / share
    spread = (weight[:, None] * seen * (filled - mean).square()).sum(0) / share
    # A column of which nothing is known may be anything; a score has a variance of about 1.
    spread = torch.where(observed.any(0), spread.clamp(min=1e-12), 1.0)
    gaussian = start or Gaussian(mean, spread.diag())
    scale = gaussian.covariance.diagonal().sqrt()
    rows = _Patterns.of(observed, filled, weight)
    for _ in range(steps):
        new = _step(gaussian, rows, ridge)
        moved = ((new.mean - gaussian.mean) / scale).abs().max()
        turned = ((new.covariance - gaussian.covariance) / (scale[:, None] * scale)).abs().max()
        gaussian = new
        if float(torch.maximum(moved, turned)) < tolerance:
            break
    return gaussian


def patterns_of(observed: Tensor) -> tuple[Tensor, Tensor]:
    """Return the patterns of what rows have seen, in order, and which of them each row has."""
    columns = observed.shape[1]
    if columns > CODED:
        return torch.unique(observed, dim=0, return_inverse=True)
    # As numbers: rows of flags take far longer to sort.
    places = torch.arange(columns - 1, -1, -1, device=observed.device)
    codes, which = torch.unique((observed.long() << places).sum(1), return_inverse=True)
    return (codes[:, None] >> places & 1).bool(), which


class _Patterns(NamedTuple):
    """Rows in the order of their patterns of what is seen, those with the fewest holes first."""

    patterns: Tensor
    which: Tensor
    x: Tensor
    weight: Tensor

    @classmethod
    def of(cls, observed: Tensor, x: Tensor, weight: Tensor) -> _Patterns:
        """Put rows in order."""
        patterns, which = patterns_of(observed)
        rank = patterns.sum(1).argsort(descending=True, stable=True)
        which = rank.argsort()[which]
        order = which.argsort(stable=True)
        return cls(patterns[rank], which[order], x[order], weight[order])

    def parts(self) -> Iterator[_Patterns]:
        """Cut into parts of whole patterns that fit into memory."""
        holes = (~self.patterns).sum(1)
        first = 0
        while first < len(holes):
            # The last pattern of a part has the most holes, and all are worked on at its size.
            size = max(1, AT_ONCE // max(1, int(holes[first])) ** 2)
            size = max(1, AT_ONCE // max(1, int(holes[first : first + size][-1])) ** 2)
            patterns = self.patterns[first : first + size]
            ends = torch.tensor([first, first + len(patterns)], device=self.which.device)
            own = slice(*torch.searchsorted(self.which, ends).tolist())
            yield _Patterns(patterns, self.which[own] - first, self.x[own], self.weight[own])
            first += len(patterns)

    def holes(self) -> tuple[Tensor, Tensor]:
        """Return the columns of each pattern's holes, as many for all, and which of them are."""
        count = (~self.patterns).sum(1)
        most = int(count.max())
        columns = self.patterns.to(torch.int8).argsort(dim=1, stable=True)[:, :most]
        return columns, torch.arange(most, device=count.device) < count[:, None]


def _step(gaussian: Gaussian, rows: _Patterns, ridge: float) -> Gaussian:
    precision = precision_of(gaussian.covariance)
    shift, square = torch.zeros_like(gaussian.mean), torch.zeros_like(gaussian.covariance)
    for part in rows.parts():
        off, spread = _expected(gaussian.mean, precision, part)
        # By the old mean, so that no digits are lost; corrected for below.
        shift = shift + part.weight @ off
        square = square + (part.weight[:, None] * off).mT @ off + spread
    covariance = square - shift[:, None] * shift
    # Towards its own diagonal: variances stay what they are.
    drawn = (covariance + ridge * covariance.diagonal().diag()) / (1 + ridge)
    return Gaussian(gaussian.mean + shift, drawn)


def _expected(mean: Tensor, precision: Tensor, part: _Patterns) -> tuple[Tensor, Tensor]:
    """Return rows off their mean with holes at what is expected, and the spread left, summed.

    All matrices are of the holes alone: of wide tables most columns are seen in most rows.
    """
    columns, real = part.holes()
    both = real[:, :, None] & real[:, None, :]
    eye = torch.eye(columns.shape[1], dtype=precision.dtype, device=precision.device)
    own = torch.where(both, precision[columns[:, :, None], columns[:, None, :]], eye)
    covariance = torch.cholesky_inverse(torch.linalg.cholesky(own))
    covariance = torch.where(both, covariance, 0.0)
    seen = torch.where(part.patterns[part.which], part.x - mean, 0.0)
    pull = (seen @ precision).gather(1, columns[part.which])
    moved = (covariance[part.which] @ pull[:, :, None])[:, :, 0]
    share = part.weight.new_zeros(len(columns)).index_add(0, part.which, part.weight)
    places = columns[:, :, None] * len(mean) + columns[:, None, :]
    spread = precision.new_zeros(precision.numel()).index_add(
        0, places.flatten(), (share[:, None, None] * covariance).flatten()
    )
    return seen.scatter_add(1, columns[part.which], -moved), spread.view_as(precision)


def completed_mean(gaussian: Gaussian, gain: Tensor, x: Tensor) -> Tensor:
    """Return rows with their holes at the conditional mean; `gain` row by row."""
    return gaussian.mean + ((x - gaussian.mean)[:, None] @ gain.mT)[:, 0]
