"""Have the chains converged? Split R-hat and effective sample size of `(chains, draws, ...)`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

MINIMUM_DRAWS = 4
# Draws to rank at once: what a processor's cache holds, and what fills a GPU.
AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
TAILS = (0.05, 0.95)


def rhat(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rank-normalised split R-hat of every entry (Vehtari et al., 2021).

    Same numbers as `arviz_stats` for two chains or more, but for many entries at once, and on a GPU
    if there is one: a posterior has thousands of entries, or millions.

    Args:
        values: `(chains, draws, *entries)`. The halves of a single chain are compared, too.

    Returns:
        `(*entries)`; NaN where a chain is too short to split or the entry never moves.
    """
    if values.shape[1] < MINIMUM_DRAWS:
        return np.full(values.shape[2:], np.nan)
    return _by_entry(_rhat, values)


def _by_entry(
    statistic: Callable[[Tensor, int], Tensor], values: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return a statistic of every entry's halves of chains, some entries at a time."""
    chains, draws = values.shape[:2]
    half = draws // 2
    flat = values.reshape(chains, draws, -1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    at_once = max(1, AT_ONCE[device] // (2 * chains * half))
    found = [np.empty(0)]
    for first in range(0, flat.shape[2], at_once):
        # An odd middle draw is left out, as `arviz_stats` does.
        part = flat[:, :, first : first + at_once]
        halves = np.stack([part[:, :half], part[:, -half:]], 1).reshape(2 * chains * half, -1)
        pooled = torch.as_tensor(np.ascontiguousarray(halves.T)).to(device).double()
        found.append(statistic(pooled, half).cpu().numpy())
    return np.concatenate(found).reshape(values.shape[2:])


def _rhat(pooled: Tensor, length: int) -> Tensor:
    """Return R-hat of `(entries, draws)`, chains of one length after another."""
    ordered, scores = _normal_scores(pooled)
    count = pooled.shape[1]
    middle = ordered[:, (count - 1) // 2 : count // 2 + 1].mean(1, keepdim=True)
    _, folded = _normal_scores((pooled - middle).abs())
    # Folding may leave ties only (two chains that stand still): the other R-hat then decides.
    worst = torch.fmax(*(_plain_rhat(own.unflatten(1, (-1, length))) for own in (scores, folded)))
    # Ties everywhere have no spread to compare: R-hat is undefined, not 1.
    return torch.where(ordered[:, -1] > ordered[:, 0], worst, torch.nan)


def rhat_by_chance(chains: int, draws: int, entries: int) -> float:
    """Return what the largest R-hat of independent draws stays below, in 99 of 100 tables.

    Of each entry two are compared, of ranks and of folded ranks, and both are nearly those of
    normal draws, whose variances between and within chains have an F-distributed ratio.

    Args:
        chains: number of chains.
        draws: of each chain, at least 4.
        entries: number of entries.
    """
    from scipy.stats import f

    parts, length = 2 * chains, draws // 2
    ratio = float(f.isf(0.01 / (2 * entries), parts - 1, parts * (length - 1)))
    return ((length - 1 + ratio) / length) ** 0.5


def ess(values: NDArray[np.floating], method: str = "bulk") -> NDArray[np.float64]:
    """Return the effective sample size of every entry, over all chains.

    Same numbers as `arviz_stats`; of the bulk for many entries at once.

    Args:
        values: `(chains, draws, *entries)`.
        method: `"bulk"`, `"tail"` (the smaller one of the 5% and the 95% quantile) or `"mean"`.
    """
    entries = values.shape[2:]
    if values.shape[1] < MINIMUM_DRAWS:
        return np.full(entries, np.nan)
    flat = values.reshape(*values.shape[:2], -1)
    moves = np.ptp(flat, axis=(0, 1)) > 0
    result = np.full(flat.shape[2], np.nan)
    if moves.any():
        own = flat if moves.all() else flat[:, :, moves]
        found = _by_entry(_bulk_ess, own) if method == "bulk" else _ess_of_arviz(own, method)
        result[moves] = found
    return result.reshape(entries)


def _ess_of_arviz(values: NDArray[np.floating], method: str) -> NDArray[np.float64]:
    from arviz_stats.base.array import array_stats

    tails = TAILS if method == "tail" else None
    return np.asarray(array_stats.ess(values.astype(np.float64), 0, 1, method=method, prob=tails))


def _bulk_ess(pooled: Tensor, length: int) -> Tensor:
    """Return the effective sample size of `(entries, draws)`, chains of one length in turn."""
    ordered, scores = _normal_scores(pooled)
    correlation = _autocorrelation(scores.unflatten(1, (-1, length)))
    # Geyer's sequence: sums of pairs of lags, as long as they are positive, never growing.
    pairs = correlation[:, : length // 2 * 2].unflatten(1, (-1, 2)).sum(2)
    pairs = pairs[:, : max(1, -(-(length - 2) // 2))]
    # The pair that the sequence ends with: the first that is not positive, or the last.
    place = torch.arange(pairs.shape[1], device=pairs.device)
    end = torch.where(pairs > 0, pairs.shape[1] - 1, place).amin(1, keepdim=True)
    before = torch.where(place < end, pairs.cummin(1).values, 0.0).sum(1)
    even, last = correlation.gather(1, 2 * end)[:, 0], pairs.gather(1, end)[:, 0]
    rest = torch.where((even > 0) | (last >= 0), even, 0.0)
    count = pooled.shape[1]
    time = (2 * before - 1 + rest).clamp(min=1 / math.log10(count))
    # What moved in the middle only, which is left out, is all ties.
    return torch.where(ordered[:, -1] > ordered[:, 0], count / time, float(count))


def _autocorrelation(chains: Tensor) -> Tensor:
    """Return that of `(entries, chains, draws)` at every lag, `(entries, draws)`; 1 at none."""
    from scipy.fft import next_fast_len

    length = chains.shape[2]
    mean = chains.mean(2, keepdim=True)
    spectrum = torch.fft.rfft(chains - mean, n=next_fast_len(2 * length, real=True))
    power = spectrum.real.square() + spectrum.imag.square()
    covariance = torch.fft.irfft(power, n=next_fast_len(2 * length, real=True))[..., :length]
    covariance = covariance.mean(1) / length
    within = covariance[:, :1] * length / (length - 1)
    total = covariance[:, :1] + mean[..., 0].var(1, keepdim=True)
    found = 1 - (within - covariance) / total
    found[:, 0] = 1
    return found


def _normal_scores(pooled: Tensor) -> tuple[Tensor, Tensor]:
    """Return each entry's draws in order, and the normal quantiles of their ranks (Blom's offset).

    Ties, as rejections leave them, share the mean of their ranks.
    """
    ordered, order = pooled.sort(1)
    count = pooled.shape[1]
    place = torch.arange(count, device=pooled.device).expand_as(order)
    differ = ordered[:, 1:] != ordered[:, :-1]
    begins, ends = pad(differ, (1, 0), value=True), pad(differ, (0, 1), value=True)
    first = torch.where(begins, place, 0).cummax(1).values
    last = torch.where(ends, place, count).flip(1).cummin(1).values.flip(1)
    # Twice a mean rank, less 2, is a whole number, and a row of a table.
    ranks = 0.5 * torch.arange(2 * count - 1, dtype=torch.float64, device=pooled.device) + 1
    quantiles = torch.special.ndtri((ranks - 0.375) / (count + 0.25))
    return ordered, torch.empty_like(pooled).scatter_(1, order, quantiles[first + last])


def _plain_rhat(values: Tensor) -> Tensor:
    """Return sqrt((W (n-1)/n + B/n) / W) of `(entries, chains, draws)`."""
    draws = values.shape[2]
    within, between = values.var(2).mean(1), values.mean(2).var(1)
    # Chains that each stand still, in different places, differ by rounding within: R-hat infinite.
    within = torch.where(within > 1e-20, within, 0.0)
    return ((within * (draws - 1) / draws + between) / within).sqrt()
