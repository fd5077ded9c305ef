"""How far a Gaussian is drawn towards columns that do not hang together: hidden values decide."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import norm

from plmcmc.chains import Progress, in_silence
from plmcmc.data import Regions
from plmcmc.data.schema import Numbers, Schema
from plmcmc.training.tables.copula import middles
from plmcmc.training.tables.gaussian import (
    RIDGE,
    Gaussian,
    completed_mean,
    conditionals,
    expectation_maximisation,
)
from plmcmc.training.tables.validation import Hidden

# Tables with fewer rows for each score may need more than the least.
FEW = 40
# From much to little; after so many without a better one, no more are tried.
PATIENCE = 2
RIDGES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, RIDGE)
# With fewer hidden values there is nothing to decide by.
LEAST_HIDDEN = 10


def chosen_ridge(
    schema: Schema, regions: Regions, hidden: Hidden, report: Progress = in_silence
) -> float:
    """Return the ridge whose Gaussian finds hidden numbers best, by CRPS of their scores.

    `report` is told how many have been tried.
    """
    rows, width = regions.low.shape
    truth = true_scores(hidden)
    numbers = np.isfinite(truth)
    if rows >= FEW * width:
        return RIDGE
    if numbers.sum() < LEAST_HIDDEN:
        # About what the best ones turn out to be.
        return min(RIDGES, key=lambda ridge: abs(np.log(ridge * rows / width)))
    middle, seen = middles(regions)
    which, columns = hidden.rows[numbers], hidden.columns[numbers]
    starts = np.cumsum([0, *(column.width for column in schema.columns)])[columns]
    scores: list[float] = []
    for ridge in RIDGES:
        gaussian = expectation_maximisation(middle, seen, ridge=ridge)
        mean, spread = _told(gaussian, middle[which], seen[which], starts)
        scores.append(float(_normal_crps(truth[numbers], mean, spread).mean()))
        report(len(scores), f"ridge {ridge:g}")
        # The least take longest, and where rows are few nothing is to be found there.
        if len(scores) - int(np.argmin(scores)) > PATIENCE:
            break
    return RIDGES[int(np.argmin(scores))]


def true_scores(hidden: Hidden) -> np.ndarray:
    """Return the score of each hidden number, `(values,)`; NaN of levels without an order."""
    scores = np.full(len(hidden.truth), np.nan)
    for place, column in enumerate(hidden.schema.columns):
        if isinstance(column, Numbers):
            own = hidden.columns == place
            scores[own] = column.marginal.middle(hidden.truth[own])
    return scores


def _told(
    gaussian: Gaussian, x: torch.Tensor, seen: torch.Tensor, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of one score of each row, given what is seen of it."""
    found = conditionals(gaussian, seen)
    rows = torch.arange(len(x))
    own = torch.as_tensor(places)
    mean = completed_mean(gaussian, found.gain, x)[rows, own]
    spread = found.root[rows, own].square().sum(1).sqrt()
    return mean.numpy(), spread.numpy()


def _normal_crps(truth: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    z = (truth - mean) / spread
    return spread * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
