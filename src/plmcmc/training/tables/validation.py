"""When to stop: observed values are hidden from training, and draws of them scored on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import Schema
from plmcmc.data.schema import Column, Levels
from plmcmc.statistics import crps

Array = NDArray[np.float64]
# Of the observed values, so many are hidden, of small tables twice as many; never two of a row.
SHARE, ENOUGH, MOST = 0.05, 100, 1000
# Of a column's values no more are.
COLUMN_SHARE = 0.2
# Columns of which fewer values are known keep them all, and so do levels.
RARE = 10
# Validations over which scores are averaged, and how many without a better one end the training.
WINDOW, PATIENCE = 5, 10
# Standard errors of what training gained that leave little doubt; and by which others may be behind
# and still be a help: errors of the two differ.
SURE, BEHIND = 1.0, 3.0


@dataclass(frozen=True, eq=False)
class Hidden:
    """Values that training does not see.

    Attributes:
        schema: of the table.
        rows: whose they are, rising.
        columns: where they stand.
        truth: what they are, as codes.
    """

    schema: Schema
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    truth: Array

    @classmethod
    def of(cls, schema: Schema, table: Array, seed: int) -> tuple[Hidden, Array]:
        """Hide some values of a table; return them, and the table without."""
        rng = np.random.default_rng([seed, 1])
        seen = np.isfinite(table)
        # A row's only value is not hidden: nothing would be left to tell it by.
        common = np.stack([_common(c, v) for c, v in zip(schema.columns, table.T, strict=True)], 1)
        cells = np.argwhere(seen & (seen.sum(1) > 1)[:, None] & common)
        cells = cells[rng.permutation(len(cells))]
        _, first = np.unique(cells[:, 0], return_index=True)
        share = SHARE * seen.sum()
        most = int(min(MOST, max(share, min(ENOUGH, 2 * share))))
        picked = _spread(cells[np.sort(first)], seen.sum(0))[:most]
        rows, columns = picked[np.argsort(picked[:, 0])].T
        left = table.copy()
        left[rows, columns] = np.nan
        return cls(schema, rows, columns, table[rows, columns]), left

    def scores(self, completions: Array) -> Array:
        """Return each value's score, 0 at best, from completed scores `(values * draws, width)`.

        Of numbers the CRPS by their ranks, as normal scores: in units of the column, a few extreme
        values would decide alone. Of levels without an order, the same with right or wrong in
        place of a distance.
        """
        codes = self.schema.table(completions).reshape(len(self.rows), -1, len(self.schema.columns))
        found = np.empty(len(self.rows))
        for place in np.unique(self.columns):
            own = self.columns == place
            column, truth, drawn = self.schema.columns[place], self.truth[own], codes[own, :, place]
            if isinstance(column, Levels):
                found[own] = _fair_hits(truth, drawn)
            else:
                ranked = (column.marginal.middle(values) for values in (truth, drawn.T))
                found[own] = crps(*ranked, fair=True)
        return found


def _spread(cells: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return cells without those of columns that would have too few values left."""
    columns = cells[:, 1]
    order = np.argsort(columns, kind="stable")
    counts = np.bincount(columns, minlength=len(known))
    rank = np.empty(len(cells), np.int64)
    rank[order] = np.arange(len(cells)) - np.repeat(counts.cumsum() - counts, counts)
    return cells[rank < COLUMN_SHARE * known[columns]]


def _common(column: Column, values: Array) -> NDArray[np.bool_]:
    """Which values may be hidden: of a level next to never seen nothing would be left to learn."""
    seen = values[np.isfinite(values)]
    if not isinstance(column, Levels):
        return np.full(len(values), len(seen) >= RARE)
    counts = np.bincount(seen.astype(np.int64), minlength=len(column.order))
    return counts[np.nan_to_num(values).astype(np.int64)] >= RARE


class ScoreHistory:
    """How scores of hidden values went, and what follows: where they were best, and when to stop.

    Args:
        scores: `(validations, values)`, the first before any training; NaN where not yet done.
    """

    def __init__(self, scores: Array) -> None:
        done = int(np.isfinite(scores).all(1).sum())
        later = [scores[max(1, t - WINDOW + 1) : t + 1].mean(0) for t in range(1, done)]
        self.smooth = np.stack([scores[0], *later])
        self.means = self.smooth.mean(1)

    @property
    def best(self) -> int:
        """The best validation, of those after training had begun."""
        return 1 + int(self.means[1:].argmin()) if len(self.means) > 1 else 0

    @property
    def improved(self) -> bool:
        """Whether training helped; if few values were hidden, by half a standard error at least.

        Few say little, and the best of many validations is better than it will prove.
        """
        least = 0.5 if self.smooth.shape[1] < ENOUGH else 0.0
        return self.best > 0 and self._gap(0, self.best) > least

    @property
    def sure(self) -> bool:
        """Whether training helped, with little doubt."""
        return self._gap(0, self.best) > SURE

    @property
    def over(self) -> bool:
        """Whether scores have been getting worse, by a standard error at least."""
        last = len(self.means) - 1
        return last - self.best >= PATIENCE and self._gap(last, self.best) > 1

    def joined_by(self, scores: Array) -> bool:
        """Whether others with these scores are better than none, and not far behind training's.

        They must beat what training began at.
        """
        own = self.smooth[self.best if self.improved else 0]
        return scores.mean() < self.means[0] and _in_errors(scores - own) < BEHIND

    def _gap(self, worse: int, better: int) -> float:
        """Return by how many standard errors one validation is above another."""
        return _in_errors(self.smooth[worse] - self.smooth[better])


def _in_errors(gap: Array) -> float:
    """Return a mean in its own standard errors."""
    return float(gap.mean() / max(gap.std() / len(gap) ** 0.5, 1e-12))


def _fair_hits(truth: Array, drawn: Array) -> Array:
    wrong = (drawn != truth[:, None]).mean(1)
    draws = drawn.shape[1]
    pairs = (drawn[:, :, None] != drawn[:, None]).sum((1, 2)) / (draws * (draws - 1))
    return wrong - 0.5 * pairs
