"""Many completed tables to one, or two: means, medians, votes of levels, ends of intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plmcmc import statistics
from plmcmc.data import Schema
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.sampling import Shown

Array = NDArray[np.float64]
# Of slopes' variance, against dividing by nothing.
RIDGE, TINY = 1e-3, 1e-300


class Mean:
    """The mean over states and chains, taken in as they come; of levels, the most frequent.

    A chain's slopes (of its log-density, along its coordinates) have mean 0 under the conditional,
    whatever that is: what the mean of a column's draws owes to slopes that happened not to cancel
    is taken off (Stein's control variates). Where the conditional is nearly normal, little noise
    is left.

    Args:
        layout: what the columns are.
        schema: how they become scores.
        rows: how many there are.
        states: how many states will be shown.
    """

    def __init__(self, layout: Layout, schema: Schema, rows: int, states: int) -> None:
        self.layout, self.states = layout, states
        self.found = np.zeros((rows, len(layout.names)))
        self.votes = {p: np.zeros((rows, n)) for p, n in layout.voted.items()}
        self.low, self.high = schema.range

    def watch(self, shown: Shown) -> None:
        """Take in one state."""
        rows, tables, slopes = shown.rows, shown.tables, shown.slopes
        if shown.state == 0:
            # Rows that did not fit into memory come again.
            for counted in self.votes.values():
                counted[rows] = 0
            self.sums = _Sums(tables.mean(1), slopes.shape[2])
        self.sums.add(tables, slopes)
        for place, counted in self.votes.items():
            counted[rows] += counts(tables[:, :, place], counted.shape[1])
        if shown.state == self.states - 1:
            self.found[rows] = np.clip(self.sums.mean(), self.low, self.high)

    def table(self) -> Array:
        """Return the reduced table."""
        found = self.found.copy()
        for place, kind in enumerate(self.layout.kinds):
            if kind == "ordinal":
                found[:, place] = np.round(found[:, place])
        for place, counted in self.votes.items():
            found[:, place] = counted.argmax(1)
        return found


class _Sums:
    """Moments of rows' values and slopes, over states and chains."""

    def __init__(self, origin: Array, slopes: int) -> None:
        rows, columns = origin.shape
        # About the first state, so that a large offset takes no digits.
        self.origin, self.count = origin, 0
        self.value, self.slope = np.zeros((rows, columns)), np.zeros((rows, slopes))
        self.both, self.square = np.zeros((rows, slopes, columns)), np.zeros((rows, slopes, slopes))

    def add(self, values: Array, slopes: Array) -> None:
        """Take in `(rows, chains, columns)` and `(rows, chains, slopes)`."""
        off, turned = values - self.origin[:, None], slopes.swapaxes(1, 2)
        self.count += values.shape[1]
        self.value += off.sum(1)
        self.slope += slopes.sum(1)
        self.both += turned @ off
        self.square += turned @ slopes

    def mean(self) -> Array:
        """Return the values' mean, less what slopes explain."""
        value, slope = self.value / self.count, self.slope / self.count
        both = self.both / self.count - slope[:, :, None] * value[:, None]
        square = self.square / self.count - slope[:, :, None] * slope[:, None]
        # In their own units: slopes of a column that hardly varies are large.
        size = np.sqrt(np.einsum("rss->rs", square) + TINY)
        scaled = square / (size[:, :, None] * size[:, None])
        weights = np.linalg.solve(scaled + RIDGE * np.eye(square.shape[1]), both / size[:, :, None])
        slope = slope / size
        return self.origin + value - (slope[:, None] @ weights)[:, 0]


class Median:
    """The median over states and chains; of levels, the most frequent.

    Args:
        layout: what the columns are.
        rows: how many there are.
        states: how many states will be shown.
    """

    def __init__(self, layout: Layout, rows: int, states: int) -> None:
        self.layout, self.states = layout, states
        self.found = np.zeros((rows, len(layout.names)))
        # All states, but only of the rows that are being worked on.
        self.kept: list[Array] = []

    def watch(self, shown: Shown) -> None:
        """Take in one state."""
        if shown.state == 0:
            self.kept = []
        self.kept.append(shown.tables)
        if shown.state == self.states - 1:
            drawn = np.concatenate(self.kept, 1)
            middle = np.median(drawn, 1)
            for place, levels in self.layout.voted.items():
                middle[:, place] = counts(drawn[:, :, place], levels).argmax(1)
            self.found[shown.rows] = middle

    def table(self) -> Array:
        """Return the reduced table."""
        return self.found


def counts(codes: Array, levels: int) -> Array:
    """Return how often each level stands in each row of `codes`."""
    return np.stack([(codes == level).sum(1) for level in range(levels)], 1)


def interval_ends(drawn: Array, level: float, kinds: Sequence[str]) -> tuple[Array, Array]:
    """Return lower and upper ends `(rows, columns)` of draws `(draws, rows, columns)`.

    Of all but continuous columns they are values that were drawn; levels without an order have
    none, and NaN stands there unless all draws agree.
    """
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = statistics.interval(drawn, level)
    for place, kind in enumerate(kinds):
        if kind != "continuous":
            own = np.quantile(drawn[:, :, place], ends, axis=0, method="inverted_cdf")
            low[:, place], high[:, place] = own
        if kind == "categorical":
            unseen = low[:, place] != high[:, place]
            low[unseen, place] = high[unseen, place] = np.nan
    return low, high
