"""Are ranks uniform? Tests for simulation-based calibration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST_BINS, GROUPS_A_BIN = 3, 24


def rank_p_value(ranks: NDArray[np.int64], draws: int, bins: int) -> float:
    """Return the chi-square p-value that independent ranks 0 .. `draws` are uniform."""
    from scipy.stats import chisquare

    counts, shares = np.bincount(_binned(ranks, draws, bins), minlength=bins), _shares(draws, bins)
    return float(chisquare(counts, shares * len(ranks)).pvalue)


def shared_rank_p_value(
    ranks: NDArray[np.int64], groups: NDArray[np.int64], draws: int, bins: int
) -> float:
    """Return the p-value that ranks are uniform, where ranks of one group may depend on each other.

    Each group counts once: Hotelling's test of the mean over groups of the shares of its ranks in
    each bin. Shares of a group are far from normal: few groups are put into fewer bins, or chance
    alone would convict them.
    """
    from scipy.stats import f

    names, place = np.unique(groups, return_inverse=True)
    bins = min(bins, max(FEWEST_BINS, len(names) // GROUPS_A_BIN))
    table = np.zeros((len(names), bins))
    np.add.at(table, (place, _binned(ranks, draws, bins)), 1)
    # The last bin's share follows from the others'.
    shares = (table / table.sum(1, keepdims=True))[:, :-1]
    off = shares.mean(0) - _shares(draws, bins)[:-1]
    count, free = shares.shape
    if count <= free:
        return float("nan")
    statistic = count * off @ np.linalg.pinv(np.cov(shares.T)) @ off
    return float(f.sf(statistic * (count - free) / (free * (count - 1)), free, count - free))


def _binned(ranks: NDArray[np.int64], draws: int, bins: int) -> NDArray[np.int64]:
    return ranks * bins // (draws + 1)


def _shares(draws: int, bins: int) -> NDArray[np.float64]:
    """Return each bin's share of the ranks 0 .. `draws`."""
    return np.bincount(_binned(np.arange(draws + 1), draws, bins), minlength=bins) / (draws + 1)
