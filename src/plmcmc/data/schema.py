"""Columns of a table as normal scores: what kinds there are, and how each goes there and back.

Every kind becomes scores of which an observed value says only where they lie (`Regions`):

- *continuous*: a point, or an interval where values are tied;
- *integer*, *ordinal*, *boolean*: intervals, in order;
- *categorical*: its levels are split off one after the other, the most frequent first. Each split
  has a score of its own, and says yes above a threshold. A level observed says no to the splits
  before its own, yes to its own, and nothing of those after. So levels have no order that a flow
  would have to bend round, and a category seen is a box, exactly. Of many levels, the rarest share
  one last score, an interval each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plmcmc.data.incomplete import DataError
from plmcmc.data.marginals import Array, Marginal, Regions

# Levels of a column that have a split of their own: matrices grow with the square of the scores.
MOST_SPLITS = 50
KINDS = ("continuous", "integer", "ordinal", "boolean", "categorical")


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers, or of levels in order by their number: one score.

    Attributes:
        name: the column's.
        kind: any but categorical.
        marginal: its way to scores.
    """

    name: str
    kind: str
    marginal: Marginal

    @property
    def width(self) -> int:
        """How many scores it has."""
        return 1

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest value seen."""
        return float(self.marginal.atoms[0]), float(self.marginal.atoms[-1])

    def regions(self, codes: Array) -> Regions:
        """Return where scores may lie, `(rows, 1)`."""
        low, high = self.marginal.regions(self._nearest(codes))
        return Regions(low[:, None], high[:, None])

    def log_slope(self, codes: Array) -> Array:
        """Return the log of d score / d value; 0 where a value has a mass."""
        return self.marginal.log_slope(self._nearest(codes))

    def _nearest(self, codes: Array) -> Array:
        """Return a continuous column as it is; of others, the nearest values that were seen."""
        atoms = self.marginal.atoms
        if self.kind == "continuous":
            return codes
        if len(atoms) == 1:
            return np.where(np.isnan(codes), np.nan, atoms[0])
        right = np.clip(np.searchsorted(atoms, codes), 1, len(atoms) - 1)
        lower = codes - atoms[right - 1] <= atoms[right] - codes
        return np.where(np.isnan(codes), np.nan, np.where(lower, atoms[right - 1], atoms[right]))

    def codes(self, scores: Array) -> Array:
        """Return the values of scores `(rows, 1)`."""
        values = self.marginal.values(scores[:, 0])
        return values if self.kind == "continuous" else np.round(values)


@dataclass(frozen=True, eq=False)
class Levels:
    """A column of unordered levels: a score for each split, and one for all levels left.

    Attributes:
        name: the column's.
        order: codes of the levels, the most frequent first.
        thresholds: score above which each split says yes.
        cuts: of the last score, between one of the levels left and the next; empty if there is only
            one, which needs no score.
    """

    name: str
    order: NDArray[np.int64]
    thresholds: Array
    cuts: Array

    kind = "categorical"

    @classmethod
    def of(cls, name: str, codes: Array, count: int) -> Levels:
        """Learn the order and the thresholds from observed codes below `count`."""
        seen = np.bincount(codes.astype(np.int64), minlength=count)
        order = np.argsort(-seen, kind="stable")
        sorted_counts, splits = seen[order].astype(float), cls.splits(count)
        left = np.cumsum(sorted_counts[::-1])[::-1]
        # A level never seen keeps half a row, so that its split has a threshold.
        share = np.clip(sorted_counts / np.maximum(left, 1), 0.5 / len(codes), 1 - 0.5 / len(codes))
        within = np.cumsum(np.maximum(sorted_counts[splits:], 0.5))
        from scipy.special import ndtri

        return cls(name, order, ndtri(1 - share[:splits]), ndtri(within[:-1] / within[-1]))

    @staticmethod
    def splits(count: int) -> int:
        """Return how many of so many levels have a split of their own."""
        return min(count - 1, MOST_SPLITS)

    @property
    def width(self) -> int:
        """How many scores it has."""
        return len(self.thresholds) + (len(self.cuts) > 0)

    @property
    def range(self) -> tuple[float, float]:
        """The first and the last code."""
        return 0.0, float(len(self.order) - 1)

    def regions(self, codes: Array) -> Regions:
        """Return where scores may lie, `(rows, width)`."""
        known = np.isfinite(codes)
        place = np.empty(len(self.order), dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        own = place[np.where(known, codes, 0).astype(np.int64)][:, None]
        split = np.arange(len(self.thresholds))
        yes, no = known[:, None] & (split == own), known[:, None] & (split < own)
        low = np.where(yes, self.thresholds, -np.inf)
        high = np.where(no, self.thresholds, np.inf)
        if len(self.cuts):
            number = own - len(self.thresholds)
            left = known[:, None] & (number >= 0)
            ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
            low = np.hstack([low, np.where(left, ends[np.maximum(number, 0)], -np.inf)])
            high = np.hstack([high, np.where(left, ends[np.maximum(number, 0) + 1], np.inf)])
        return Regions(low, high)

    def codes(self, scores: Array) -> Array:
        """Return the level of each row of scores: of the first split that says yes, or one left."""
        splits = len(self.thresholds)
        yes = np.ones((len(scores), splits + 1), bool)
        yes[:, :splits] = scores[:, :splits] > self.thresholds
        place = yes.argmax(1)
        if len(self.cuts):
            place += np.where(place == splits, np.searchsorted(self.cuts, scores[:, splits]), 0)
        return self.order[place].astype(float)


Column = Numbers | Levels


@dataclass(frozen=True, eq=False)
class Schema:
    """The columns of a table, in order; tables are `(rows, columns)` of codes, NaN at holes."""

    columns: tuple[Column, ...]

    @classmethod
    def of(
        cls, table: Array, names: Sequence[str], kinds: Sequence[str], levels: Sequence[int | None]
    ) -> Schema:
        """Learn from a table.

        Args:
            table: `(rows, columns)`: numbers, or codes of levels; NaN at holes.
            names: of the columns.
            kinds: of the columns, from `KINDS`.
            levels: how many levels a categorical column has; None for others.

        Raises:
            DataError: if a column has no observed values.
        """
        columns = []
        for values, name, kind, count in zip(table.T, names, kinds, levels, strict=True):
            seen = values[np.isfinite(values)]
            if kind not in KINDS:
                raise DataError(f"column {name!r}: kind must be one of {KINDS}; got {kind!r}")
            if len(seen) == 0:
                raise DataError(
                    f"column {name!r}: expected values to learn from; all are missing. Leave it out"
                )
            if kind == "categorical":
                if count is None:
                    raise DataError(f"column {name!r} is categorical: give its number of levels")
                columns.append(Levels.of(name, seen, count))
            else:
                marginal = Marginal.of(seen, discrete=kind != "continuous")
                columns.append(Numbers(name, kind, marginal))
        return cls(tuple(columns))

    @property
    def width(self) -> int:
        """How many scores a row has."""
        return sum(column.width for column in self.columns)

    @property
    def range(self) -> tuple[Array, Array]:
        """The least and the largest code of each column."""
        ends = [column.range for column in self.columns]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])

    def regions(self, table: Array) -> Regions:
        """Return where the scores of a table may lie, `(rows, width)`."""
        parts = [c.regions(values) for c, values in zip(self.columns, table.T, strict=True)]
        return Regions(*(np.concatenate(ends, 1) for ends in zip(*parts, strict=True)))

    def log_slope(self, table: Array) -> Array:
        """Return the log of d scores / d values of a table's rows, over values with a density."""
        parts = [
            column.log_slope(values)
            for column, values in zip(self.columns, table.T, strict=True)
            if isinstance(column, Numbers)
        ]
        return np.sum(parts, axis=0) if parts else np.zeros(len(table))

    def table(self, scores: Array) -> Array:
        """Return the table of scores `(rows, width)`."""
        ends = np.cumsum([column.width for column in self.columns])
        parts = np.split(scores, ends[:-1], axis=1)
        found = [column.codes(part) for column, part in zip(self.columns, parts, strict=True)]
        return np.stack(found, 1)
