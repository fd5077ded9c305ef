"""missForest: each column predicted from the others by a random forest, over and over.

Stekhoven and Buehlmann (2012), with the settings of their R package (1.5): 100 trees grown on
bootstrap samples until leaves are pure, `floor(sqrt(columns))` columns tried at each split, at most
10 iterations. Numeric columns only. (randomForest alone would stop at nodes of 5 and try a third
of the columns; missForest passes 1 and the root.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.baselines.mean import Table, checked_table, column_means

Seen = NDArray[np.bool_]


@dataclass(frozen=True)
class ForestImputer:
    """Fills missing values as missForest does.

    Starts from the column means, and visits columns from the fewest to the most missing values.
    Stops when an iteration changes the table more than the previous one did, and returns the table
    before that iteration.

    Attributes:
        trees: Number of trees in each forest.
        max_iterations: Maximum number of visits to each column.
        random_state: Seed; None takes a new one every time.
        jobs: Threads that grow trees (scikit-learn's `n_jobs`); results do not depend on it.
    """

    trees: int = 100
    max_iterations: int = 10
    random_state: int | None = None
    jobs: int | None = None

    def __post_init__(self) -> None:
        for name in ("trees", "max_iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")

    def fill(self, x: Any) -> Table:
        """Return the table `(rows, columns)` with its NaN filled.

        Raises:
            DataError: if `x` is not a table of numbers, or has a column without any.
        """
        values, seen = checked_table(x)
        rng = np.random.default_rng(self.random_state)
        filled, change = np.where(seen, values, column_means(values, seen)), math.inf
        for _ in range(self.max_iterations):
            updated = self._sweep(filled, seen, rng)
            moved = _difference(updated, filled)
            if moved >= change:
                break
            filled, change = updated, moved
        return filled

    def _sweep(self, filled: Table, seen: Seen, rng: np.random.Generator) -> Table:
        """Return the table with each column's holes predicted once, from what is there by then."""
        filled = filled.copy()
        for column in _visits(seen):
            rows = seen[:, column]
            # Trees know only order, but scikit-learn rounds predictors to single precision and
            # takes spreads under 1e-7 for none.
            others = _standardised(np.delete(filled, column, axis=1))
            centre, spread = _centre_and_spread(filled[rows, column])
            forest = self._forest(filled.shape[1], rng)
            forest.fit(others[rows], (filled[rows, column] - centre) / spread)
            # One thread adds up the trees in one order: the same last bit for any `jobs`.
            predicted = forest.set_params(n_jobs=1).predict(others[~rows])
            filled[~rows, column] = centre + spread * predicted
        return filled

    def _forest(self, columns: int, rng: np.random.Generator) -> Any:
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(
            n_estimators=self.trees,
            max_features=math.isqrt(columns),
            min_samples_leaf=1,
            n_jobs=self.jobs,
            random_state=int(rng.integers(2**31)),
        )


def _visits(seen: Seen) -> list[int]:
    """Return the columns with holes, least missing first; none where no other could predict it."""
    missing = (~seen).sum(axis=0)
    order = np.argsort(missing, kind="stable")
    return [int(column) for column in order if missing[column]] if len(missing) > 1 else []


def _difference(updated: Table, before: Table) -> float:
    """Return the paper's criterion: squared change over all columns, by the table's own square."""
    size = np.square(updated).sum()
    return float(np.square(updated - before).sum() / size) if size else 0.0


def _standardised(table: Table) -> Table:
    centre, spread = _centre_and_spread(table)
    return (table - centre) / spread


def _centre_and_spread(values: Table) -> tuple[Table, Table]:
    """Return mean and deviation over rows, 1 for the deviation of what is constant."""
    constant = np.ptp(values, axis=0) == 0
    return values.mean(axis=0), np.where(constant, 1.0, values.std(axis=0))
