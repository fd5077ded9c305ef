"""Have the chains converged? Split R-hat and effective sample size of `(chains, draws, ...)`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MINIMUM_DRAWS = 4
TAILS = (0.05, 0.95)


def rhat(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rank-normalised split R-hat of every entry (Vehtari et al., 2021).

    Same numbers as `arviz_stats`, for all entries at once: an entry there takes half a
    millisecond, and a posterior has thousands.

    Args:
        values: `(chains, draws, *entries)`.

    Returns:
        `(*entries)`; NaN where a chain is too short to split or the entry never moves.
    """
    chains, draws = values.shape[:2]
    entries = values.shape[2:]
    if draws < MINIMUM_DRAWS:
        return np.full(entries, np.nan)
    halves = _split(values).reshape(2 * chains, draws // 2, -1).astype(np.float64)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    # Folding may leave ties only (two chains that stand still): the other R-hat then decides.
    worst = np.fmax(_plain_rhat(_normal_scores(halves)), _plain_rhat(_normal_scores(folded)))
    # Ties everywhere have no spread to compare: R-hat is undefined, not 1.
    return np.where(np.ptp(halves, axis=(0, 1)) > 0, worst, np.nan).reshape(entries)


def ess(values: NDArray[np.floating], method: str = "bulk") -> NDArray[np.float64]:
    """Return the effective sample size of every entry, over all chains.

    Args:
        values: `(chains, draws, *entries)`.
        method: `"bulk"`, `"tail"` (the smaller one of the 5% and the 95% quantile) or `"mean"`.
    """
    from arviz_stats.base.array import array_stats

    entries = values.shape[2:]
    if values.shape[1] < MINIMUM_DRAWS:
        return np.full(entries, np.nan)
    flat = values.reshape(*values.shape[:2], -1).astype(np.float64)
    moves = np.ptp(flat, axis=(0, 1)) > 0
    result = np.full(flat.shape[2], np.nan)
    if moves.any():
        tails = TAILS if method == "tail" else None
        found = array_stats.ess(flat[:, :, moves], 0, 1, method=method, prob=tails)
        result[moves] = np.asarray(found)
    return result.reshape(entries)


def _split(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Cut each chain in two halves; an odd middle draw is left out, as `arviz_stats` does."""
    half = values.shape[1] // 2
    return np.stack([values[:, :half], values[:, -half:]], axis=1)


def _normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace values by the normal quantiles of their pooled ranks (Blom's offset)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    pooled = values.reshape(-1, values.shape[2])
    ranks = rankdata(pooled, method="average", axis=0)
    return ndtri((ranks - 0.375) / (len(pooled) + 0.25)).reshape(values.shape)


def _plain_rhat(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sqrt((W (n-1)/n + B/n) / W) of `(chains, draws, entries)`."""
    draws = values.shape[1]
    within = values.var(axis=1, ddof=1).mean(axis=0)
    between = values.mean(axis=1).var(axis=0, ddof=1)
    # Chains that each stand still, in different places, differ by rounding within: R-hat infinite.
    within = np.where(within > 1e-20, within, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((within * (draws - 1) / draws + between) / within)
