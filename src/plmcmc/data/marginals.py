"""Columns as normal scores: each value a point, or an interval where values are tied.

A column's observed values, in order, are spread evenly over probabilities and these turned into
normal quantiles. A value that occurs once is a point. One that occurs more often has no one place:
its score may lie anywhere in an interval, which is all that is known of it. (Mid-ranks instead, in
a column that is nearly always 0, would put a spike into the middle of a normal.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Distinct values of a continuous column that are remembered, about.
MOST = 20_000


class Regions(NamedTuple):
    """Where scores may lie, `(rows, columns)`: points, intervals, or anywhere if missing.

    Attributes:
        low: lower ends; minus infinity where nothing is known.
        high: upper ends.
    """

    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Marginal:
    """One column's way to scores and back.

    Attributes:
        atoms: distinct observed values, in order.
        low: lower end of each one's scores; minus infinity for the first if it is tied.
        high: upper end; the same number for a value that occurs once.
    """

    atoms: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array, *, discrete: bool = False) -> Marginal:
        """Learn from a column's observed values; of a discrete one, each fills an interval."""
        from scipy.special import ndtri

        atoms, counts = np.unique(values, return_counts=True)
        after = np.cumsum(counts) / len(values)
        before = after - counts / len(values)
        middle = ndtri((before + after) / 2)
        tied = (counts > 1) | discrete
        # Rounding may leave the last a little under 1.
        after[-1] = 1.0
        low = np.where(tied, ndtri(np.maximum(before, 0.0)), middle)
        high = np.where(tied, ndtri(after), middle)
        kept = slice(None) if discrete else _told_apart(counts)
        return cls(atoms[kept], low[kept], high[kept])

    def regions(self, values: Array) -> Regions:
        """Return where the scores of `values` may lie; NaN may be anywhere.

        A value between two atoms is a point between their scores; one beyond them all has the
        outermost one's scores.
        """
        known = np.isfinite(values)
        inside = np.clip(np.where(known, values, self.atoms[0]), self.atoms[0], self.atoms[-1])
        right = np.searchsorted(self.atoms, inside, side="left")
        left = np.maximum(right - (self.atoms[right] > inside), 0)
        hit = self.atoms[right] == inside
        gap = np.where(hit, 1.0, self.atoms[right] - self.atoms[left])
        share = np.where(hit, 0.0, (inside - self.atoms[left]) / gap)
        # Between atoms both ends are finite: only the outermost ones' outer ends are not.
        start = np.where(hit, 0.0, self.high[left])
        point = start + share * np.where(hit, 0.0, self.low[right] - start)
        low = np.where(hit, self.low[right], point)
        high = np.where(hit, self.high[right], point)
        return Regions(np.where(known, low, -np.inf), np.where(known, high, np.inf))

    def middle(self, values: Array) -> Array:
        """Return one score for each value, of a tie the middle of its probabilities."""
        return np.interp(values, self.atoms, self._middles)

    @cached_property
    def _middles(self) -> Array:
        from scipy.special import ndtr, ndtri

        return ndtri((ndtr(self.low) + ndtr(self.high)) / 2)

    def log_slope(self, values: Array) -> Array:
        """Return the log of d score / d value; 0 where a value has an interval, or is missing.

        Over the nearest values seen, the square root of their number on either side: from one to
        the next it would be mostly noise. Not across a tie, which has a mass of its own. Beyond all
        values seen, scores go on with the last slope, and what a normal falls by there is added.
        """
        if len(self.atoms) == 1:
            return np.zeros_like(values)
        known = np.where(np.isnan(values), self.atoms[0], values)
        inside = np.clip(known, self.atoms[0], self.atoms[-1])
        right = np.searchsorted(self.atoms, inside, side="left")
        slope = self._slope(right)
        tied = (self.low < self.high)[right] & (self.atoms[right] == known)
        fall = self._fall(right, slope * np.abs(known - inside))
        return np.where(tied | np.isnan(values), 0.0, np.log(slope) - fall)

    def _slope(self, right: NDArray[np.int64]) -> Array:
        """Return d score / d value left of, or at, the atoms `right`, over a window about them."""
        last, reach = len(self.atoms) - 1, math.isqrt(len(self.atoms))
        ties, places = self.low < self.high, np.arange(last + 1)
        # The nearest ties on either side, or the ends: before a value, and from it on.
        ahead = np.minimum.accumulate(np.where(ties, places, last)[::-1])[::-1]
        behind = np.maximum.accumulate(np.where(ties, places, 0))
        before = np.maximum(np.maximum(right - reach, 0), behind[np.maximum(right - 1, 0)])
        after = np.minimum(np.minimum(right + reach, last), np.maximum(ahead[right], 1))
        rise = self.low[after] - self.high[before]
        # Between two ties that touch there is no room; a middle to a middle will have to do.
        middle = self._middles
        rise = np.where(rise > 0, rise, middle[after] - middle[before])
        return rise / (self.atoms[after] - self.atoms[before])

    def _fall(self, edge: NDArray[np.int64], beyond: Array) -> Array:
        """Return what a normal's log-density falls by from the score of an atom to one beyond."""
        start = np.abs(self._middles[edge])
        return 0.5 * ((start + beyond) ** 2 - start**2)

    def values(self, scores: Array) -> Array:
        """Return the values of scores: flat over a tie, linear between, within what was seen."""
        ends, places = self._corners
        return np.interp(scores, ends, places) if len(ends) else np.full_like(scores, self.atoms[0])

    @cached_property
    def _corners(self) -> tuple[Array, Array]:
        """Scores and values between which values are linear in scores."""
        ends, places = np.stack([self.low, self.high], 1).ravel(), np.repeat(self.atoms, 2)
        # Beyond the outermost ends that are finite, values stay as they are.
        finite = np.isfinite(ends)
        return ends[finite], places[finite]


def _told_apart(counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of a column's values to remember: all, or those that are many, and some between.

    A value that is not remembered lies between two that are, and its score between theirs.
    """
    if len(counts) <= MOST:
        return np.ones(len(counts), dtype=bool)
    kept = counts > counts.sum() / MOST
    kept[np.linspace(0, len(counts) - 1, MOST).round().astype(int)] = True
    return kept
