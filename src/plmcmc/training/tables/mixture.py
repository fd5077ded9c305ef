"""Mixtures of Gaussians from rows with holes: expectation-maximisation, each from its own start.

One mixture of many components fits a table's noise, and the mean of many such does not: they begin
at rows picked at random, and err in different ways.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from plmcmc.flows.mixture import Components, seen_precisions
from plmcmc.training.tables.gaussian import patterns_of

STEPS = 50
# Variance that components begin with, of scores that have about 1.
FIRST = 0.5
# What is added to a component's scatter: so much, times the square of the columns.
PRIOR = 0.003
# Rows that no component has less of, and a variance that none is under.
LEAST_ROWS, LEAST_VARIANCE = 1e-3, 1e-4


def fit_mixture(
    x: Tensor, observed: Tensor, components: int, source: Generator, *, steps: int = STEPS
) -> Components:
    """Fit a mixture to rows with holes.

    Args:
        x: `(rows, columns)` of scores, float64; holes are not read.
        observed: bool, same shape.
        components: how many.
        source: of the rows that it begins at.
        steps: of expectation-maximisation.
    """
    rows = _Rows(x, observed, *patterns_of(observed))
    noise = torch.randn(x.shape, generator=source, dtype=x.dtype)
    begin = torch.randperm(len(x), generator=source)[:components]
    eye = torch.eye(x.shape[1], dtype=x.dtype)
    found = Components(
        torch.full((components,), 1 / components, dtype=x.dtype),
        torch.where(observed, x, noise)[begin],
        (FIRST * eye).repeat(components, 1, 1),
    )
    for _ in range(steps):
        found = _step(found, rows)
    return found


class _Rows(NamedTuple):
    """Rows, and the patterns of what is seen of them."""

    x: Tensor
    observed: Tensor
    patterns: Tensor
    which: Tensor


def _step(old: Components, rows: _Rows) -> Components:
    """Return what the rows say, if the old components are right about the holes."""
    weight, mean, covariance = old
    columns = rows.x.shape[1]
    eye = torch.eye(columns, dtype=rows.x.dtype)
    precision, log_det = seen_precisions(covariance, rows.patterns)
    # Rows, components, columns.
    off = torch.where(rows.observed[:, None], rows.x[:, None] - mean, 0.0)
    pull = (precision[rows.which] @ off[..., None])[..., 0]
    heights = weight.log() - 0.5 * (off * pull).sum(2) - log_det[rows.which]
    share = heights.softmax(1)
    # Off the old means, holes at what is expected of them.
    moved = (pull.transpose(0, 1) @ covariance).mT
    counts = share.sum(0)
    seen = counts.new_zeros(len(rows.patterns), len(counts)).index_add(0, rows.which, share)
    told = torch.einsum("pk,pkde->kde", seen, precision)
    weighted = moved * share.mT[:, None]
    least = counts + LEAST_ROWS
    shift = weighted.sum(2) / least[:, None]
    scatter = weighted @ moved.mT - least[:, None, None] * shift[:, :, None] * shift[:, None]
    # What is left of the holes' own spread.
    scatter = scatter + counts[:, None, None] * covariance - covariance @ told @ covariance
    scatter = scatter + PRIOR * columns**2 * eye
    new = scatter / least[:, None, None] + LEAST_VARIANCE * eye
    return Components(least / least.sum(), mean + shift, 0.5 * (new + new.mT))
