"""Can the imputations be trusted? Convergence of the chains, and values hidden on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plmcmc import statistics
from plmcmc.imputation.model import Effort, TableModel
from plmcmc.imputation.sampling import THIN, walk
from plmcmc.imputation.tables import Layout

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
# Rows looked at, at most: enough for a verdict on every column.
ROWS = 400
HIDDEN = 0.1
LEVEL = 0.9
RHAT_LIMIT = 1.1


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found, one number for each column.

    Attributes:
        names: of the columns.
        holes: share of values missing, in the rows looked at.
        rhat: median R-hat of the missing entries; NaN where nothing is missing.
        converged: share of the missing entries with an R-hat under 1.1, per member of the ensemble.
        ess: median effective number of draws of a missing entry.
        coverage: share of values hidden on purpose that lie in their 90% interval; for unordered
            levels, share whose most frequent draw is right.
        rows: how many rows were looked at.
    """

    names: tuple[str, ...]
    holes: Array
    rhat: Array
    converged: Array
    ess: Array
    coverage: Array
    rows: int

    @property
    def verdict(self) -> str:
        """The finding in plain words."""
        share = float(np.nansum(self.converged * self.holes) / max(self.holes.sum(), 1e-12))
        slow = [n for n, c in zip(self.names, self.converged, strict=True) if c < 0.5]
        words = f"{share:.0%} of the missing entries have converged (R-hat under {RHAT_LIMIT})"
        if slow:
            words += f"; slowest: {', '.join(slow[:5])}: try effort='thorough'"
        return f"{words}. {self.rows} rows were looked at."

    def summary(self) -> pd.DataFrame:
        """Return one line per column."""
        import pandas as pd

        fields = ("holes", "rhat", "converged", "ess", "coverage")
        columns = {field: getattr(self, field) for field in fields}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="column"))


def diagnosed(
    model: TableModel, layout: Layout, codes: Array, effort: Effort, seed: int
) -> Diagnosis:
    """Run chains for some rows as they are, and for the same rows with more values hidden."""
    rng = np.random.default_rng(seed)
    picked = np.sort(rng.permutation(len(codes))[:ROWS])
    table = codes[picked]
    missing = np.isnan(table)
    rhat, ess = _convergence(_drawn(model, table, effort, seed), missing, effort)
    hidden = ~missing & (rng.random(table.shape) < HIDDEN)
    again = _drawn(model, np.where(hidden, np.nan, table), effort, seed + 1)
    columns = range(table.shape[1])
    good = [_share(rhat[:, :, j][:, missing[:, j]] < RHAT_LIMIT) for j in columns]
    return Diagnosis(
        names=layout.names,
        holes=missing.mean(0),
        rhat=np.array([_median(rhat[:, :, j][:, missing[:, j]]) for j in columns]),
        converged=np.array(good),
        ess=np.array([_median(ess[:, :, j][:, missing[:, j]]) for j in columns]),
        coverage=np.array(
            [_right(again[..., j], table[:, j], hidden[:, j], layout.kinds[j]) for j in columns]
        ),
        rows=len(table),
    )


def _drawn(model: TableModel, table: Array, effort: Effort, seed: int) -> Array:
    """Return `(states, rows, chains * members, columns)`."""
    states = max(4, effort.states // THIN)
    places = effort.chains * model.flow.members
    found = np.empty((states, len(table), places, table.shape[1]))

    def watch(rows: slice, state: int, tables: Array) -> None:
        found[state, rows] = tables

    walk(model, table, effort, watch, states=states, seed=seed, progress=False)
    return found


def _convergence(drawn: Array, missing: NDArray[np.bool_], effort: Effort) -> tuple[Array, Array]:
    """Return R-hat and ESS `(members, rows, columns)`; NaN where nothing is missing."""
    states, rows, _, columns = drawn.shape
    # Places of a row take turns among the members.
    by_member = drawn.reshape(states, rows, effort.chains, effort.members, columns)
    shape = (effort.members, rows, columns)
    rhat, ess = np.full(shape, np.nan), np.full(shape, np.nan)
    for member in range(effort.members):
        chains = by_member[:, :, :, member].transpose(2, 0, 1, 3)[:, :, missing]
        if missing.any():
            rhat[member][missing] = statistics.rhat(chains)
            ess[member][missing] = statistics.ess(chains)
    return rhat, ess.sum(0, keepdims=True)


def _right(drawn: Array, truth: Array, hidden: NDArray[np.bool_], kind: str) -> float:
    """Return how often what was hidden is found; `drawn` `(states, rows, places)`."""
    if not hidden.any():
        return float("nan")
    flat = drawn[:, hidden].transpose(0, 2, 1).reshape(-1, int(hidden.sum()))
    if kind == "categorical":
        votes = [np.bincount(column.astype(int)).argmax() for column in flat.T]
        return float((np.array(votes) == truth[hidden]).mean())
    low, high = np.quantile(flat, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return float(statistics.coverage(truth[hidden], low, high))


def _median(values: Array) -> float:
    found = values[np.isfinite(values)]
    return float(np.median(found)) if found.size else float("nan")


def _share(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if values.size else float("nan")
