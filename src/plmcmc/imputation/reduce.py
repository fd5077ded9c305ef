"""Many completed tables to one: means and medians of numbers, votes of levels without an order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plmcmc.imputation.tables import Layout

Array = NDArray[np.float64]


class Mean:
    """The mean over states and chains, taken in as they come; of levels, the most frequent.

    Args:
        layout: what the columns are.
        rows: how many there are.
        states: how many states will be shown.
    """

    def __init__(self, layout: Layout, rows: int, states: int) -> None:
        self.states = states
        self.total = np.zeros((rows, len(layout.names)))
        self.votes = {p: np.zeros((rows, n)) for p, n in _voted(layout).items()}

    def watch(self, rows: slice, state: int, tables: Array) -> None:
        """Take in one state's tables `(rows, chains, columns)`."""
        if state == 0:
            # Rows that did not fit into memory come again.
            for counted in (self.total, *self.votes.values()):
                counted[rows] = 0
        self.total[rows] += tables.mean(1)
        for place, counted in self.votes.items():
            counted[rows] += _counts(tables[:, :, place], counted.shape[1])

    def table(self) -> Array:
        """Return the reduced table."""
        found = self.total / self.states
        for place, counted in self.votes.items():
            found[:, place] = counted.argmax(1)
        return found


def median(layout: Layout, drawn: Array) -> Array:
    """Return the median of `(draws, rows, columns)`; of levels, the most frequent."""
    found = np.median(drawn, 0)
    for place, levels in _voted(layout).items():
        found[:, place] = _counts(drawn[:, :, place].T, levels).argmax(1)
    return found


def _voted(layout: Layout) -> dict[int, int]:
    """Return how many levels each column has of which a mean says nothing."""
    named = enumerate(zip(layout.kinds, layout.levels, strict=True))
    return {
        place: len(levels)
        for place, (kind, levels) in named
        if levels is not None and kind in ("categorical", "boolean")
    }


def _counts(codes: Array, levels: int) -> Array:
    """Return how often each level stands in each row of `codes`."""
    return np.stack([(codes == level).sum(1) for level in range(levels)], 1)
