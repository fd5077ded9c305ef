"""Can the imputations be trusted? Convergence of the chains, and values hidden on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plmcmc import statistics
from plmcmc.imputation.convergence import LEAST_STATES, LIMIT, Convergence
from plmcmc.imputation.effort import Effort
from plmcmc.imputation.figures import density_figure, trace_figure
from plmcmc.imputation.layout import VOTED, Layout
from plmcmc.imputation.model import TableModel
from plmcmc.imputation.reduce import counts
from plmcmc.imputation.sampling import Shown, Walk
from plmcmc.threads import one_thread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
# Rows looked at, at most: enough for a verdict on every column.
ROWS = 400
HIDDEN = 0.1
LEVEL = 0.9
# A sound model is said to have too narrow intervals this often, over all of its columns.
FALSE_ALARM = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """Results of a diagnosis, one number per column.

    Attributes:
        names: names of the columns.
        holes: share of missing values in the rows examined.
        rhat: median R-hat of the missing entries, over members; NaN if nothing is missing.
        converged: share of the missing entries with an R-hat under 1.1, per member of the ensemble.
        ess: median effective number of draws of a missing entry.
        coverage: share of values hidden on purpose that lie in their 90% interval; for booleans
            and unordered levels, share whose most frequent draw is right.
        hidden: number of values hidden on purpose.
        rows: number of rows examined.
        kinds: kinds of the columns.
        levels: levels of the columns that have them.
        observed: all observed values of each column, as codes.
        imputed: draws `(states, entries, places)` of each column's missing entries.
        stuck: number of rows with a chain that never moved.
    """

    names: tuple[str, ...]
    holes: Array
    rhat: Array
    converged: Array
    ess: Array
    coverage: Array
    hidden: Array
    rows: int
    kinds: tuple[str, ...]
    levels: tuple[tuple[Any, ...] | None, ...]
    observed: tuple[Array, ...]
    imputed: tuple[Array, ...]
    stuck: int = 0

    @property
    def converged_share(self) -> float:
        """The share of the missing entries that have converged."""
        return float(np.nansum(self.converged * self.holes) / max(self.holes.sum(), 1e-12))

    @property
    def interval_coverage(self) -> float:
        """The share of hidden numbers that lie in their intervals; NaN if none was hidden."""
        return self._recovered(self._numbers)

    @property
    def right_levels(self) -> float:
        """The share of hidden levels whose most frequent draw is right; NaN if none was hidden."""
        return self._recovered(~self._numbers)

    @property
    def narrow(self) -> tuple[str, ...]:
        """Columns of numbers whose intervals contain too few hidden values to be a coincidence.

        Binomial tests, at 1% for all columns together: one by one, or else all at once.
        """
        columns = np.flatnonzero(self._numbers & (self.hidden > 0))
        hidden, expected = self.hidden[columns], self._expected[columns]
        inside = np.round(self.coverage[columns] * hidden)
        few = _too_few(inside, hidden, expected)
        if not few.any() and hidden.any():
            together = np.average(expected, weights=hidden)
            few |= _too_few(inside.sum(), hidden.sum(), together)
        return tuple(self.names[place] for place in columns[few])

    @property
    def verdict(self) -> str:
        """A summary in plain words."""
        return " ".join([*self._of_chains(), *self._of_hidden()])

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict}>"

    @property
    def _numbers(self) -> NDArray[np.bool_]:
        """Which columns have intervals."""
        return ~np.isin(self.kinds, VOTED)

    def _recovered(self, columns: NDArray[np.bool_]) -> float:
        columns = columns & (self.hidden > 0)
        if not columns.any():
            return float("nan")
        return float(np.average(self.coverage[columns], weights=self.hidden[columns]))

    @property
    def _expected(self) -> Array:
        """The share of hidden values that a sound model's intervals contain, by column."""
        draws = self.imputed[0].shape[0] * self.imputed[0].shape[2]
        # Quantiles of few draws lie closer together than those of the distribution; and draws of a
        # chain are worth fewer. A column without holes is taken to mix like the others.
        known = np.isfinite(self.ess)
        usual = np.median(self.ess[known]) if known.any() else draws
        worth = np.clip(np.where(known, self.ess, usual), 2.0, draws)
        return LEVEL * (worth - 1) / (worth + 1)

    def _of_chains(self) -> Iterator[str]:
        if not self.holes.any():
            yield f"Nothing is missing in the {self.rows} rows that were examined."
            return
        share = self.converged_share
        slow = [n for n, c in zip(self.names, self.converged, strict=True) if c < 0.5]
        words = f"{share:.0%} of the missing entries have converged (R-hat under {LIMIT})"
        if slow:
            words += f"; slowest: {', '.join(slow[:5])}: try effort='thorough'"
        if self.stuck:
            words += f"; in {self.stuck} rows a chain never moved"
        yield f"{words}. {self.rows} rows were examined."

    def _of_hidden(self) -> Iterator[str]:
        if np.isfinite(self.interval_coverage):
            count = self.hidden[self._numbers].sum()
            words = f"Of {count:.0f} numbers hidden on purpose, {self.interval_coverage:.0%} lie"
            words += f" in their {LEVEL:.0%} interval"
            if self.narrow:
                words += f"; intervals are too narrow in: {', '.join(self.narrow[:5])}"
            yield f"{words}."

    def traces(self) -> Figure:
        """Return a figure of the chains of one missing entry per column, by member."""
        return trace_figure(self)

    def densities(self) -> Figure:
        """Return a figure of observed and imputed values, by column."""
        return density_figure(self)

    def summary(self) -> pd.DataFrame:
        """Return one line per column."""
        import pandas as pd

        fields = ("holes", "rhat", "converged", "ess", "coverage")
        columns = {field: getattr(self, field) for field in fields}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="column"))


def _too_few(
    inside: Array | np.floating, hidden: Array | np.floating, expected: Array | np.floating
) -> NDArray[np.bool_]:
    """Whether fewer values lie inside than chance explains."""
    from scipy.stats import binom

    # Half for the columns one by one, half for all at once.
    limit = FALSE_ALARM / 2 / max(1, np.size(inside))
    return np.asarray(binom.cdf(inside, hidden, expected) < limit)


@one_thread()
def diagnosed(
    model: TableModel, layout: Layout, codes: Array, effort: Effort, seed: int
) -> Diagnosis:
    """Run chains for some rows as they are, and for the same rows with more values hidden."""
    rng = np.random.default_rng(seed)
    picked = np.sort(rng.permutation(len(codes))[:ROWS])
    table = codes[picked]
    missing = np.isnan(table)
    drawn, convergence = _drawn(model, table, effort, seed)
    worst = _by_column(model, convergence.rhat.astype(np.float64))
    hidden = ~missing & (rng.random(table.shape) < HIDDEN)
    again, _ = _drawn(model, np.where(hidden, np.nan, table), effort, seed + 1)
    columns = range(table.shape[1])
    return Diagnosis(
        names=layout.names,
        holes=missing.mean(0),
        rhat=np.array([_median(worst[:, missing[:, j], j]) for j in columns]),
        converged=np.array([_share(worst[:, missing[:, j], j] < LIMIT) for j in columns]),
        ess=np.array([_ess(drawn[..., j][:, missing[:, j]], model.members) for j in columns]),
        coverage=np.array(
            [_right(again[..., j], table[:, j], hidden[:, j], layout.voted.get(j)) for j in columns]
        ),
        hidden=hidden.sum(0).astype(np.float64),
        rows=len(table),
        kinds=layout.kinds,
        levels=layout.levels,
        observed=tuple(codes[~np.isnan(codes[:, j]), j] for j in columns),
        imputed=tuple(drawn[..., j][:, missing[:, j]] for j in columns),
        stuck=int(convergence.stuck[missing.any(1)].sum()),
    )


def _drawn(model: TableModel, table: Array, effort: Effort, seed: int) -> tuple[Array, Convergence]:
    """Return `(states, rows, places, columns)`, and how chains converged."""
    places, states = effort.chains * model.members, max(LEAST_STATES, effort.states)
    found = np.empty((states, len(table), places, table.shape[1]))

    def watch(shown: Shown) -> None:
        found[shown.state, shown.rows] = shown.tables

    walk = Walk(model, places, effort.burn_in, states, seed=seed)
    return found, walk.run(table, watch)


def _by_column(model: TableModel, rhat: Array) -> Array:
    """Return the worst R-hat of each column's scores, `(members, rows, columns)`."""
    widths = [column.width for column in model.schema.columns]
    parts = np.split(rhat, np.cumsum(widths)[:-1], axis=2)
    # A column of one level has no score, and nothing that would have to converge.
    alone = np.ones(rhat.shape[:2])
    return np.stack([part.max(2) if part.shape[2] else alone for part in parts], 2)


def _ess(drawn: Array, members: int) -> float:
    """Return the median effective number of draws of entries, members added up."""
    states, entries, _ = drawn.shape
    if not entries:
        return float("nan")
    by_member = drawn.reshape(states, entries, -1, members)
    found = sum(
        statistics.ess(by_member[..., member].transpose(2, 0, 1)) for member in range(members)
    )
    return _median(np.asarray(found))


def _right(drawn: Array, truth: Array, hidden: NDArray[np.bool_], levels: int | None) -> float:
    """Return how often what was hidden is found; `drawn` `(states, rows, places)`."""
    if not hidden.any():
        return float("nan")
    flat = drawn[:, hidden].transpose(0, 2, 1).reshape(-1, int(hidden.sum()))
    if levels is not None:
        return float((counts(flat.T, levels).argmax(1) == truth[hidden]).mean())
    return statistics.coverage(truth[hidden], *statistics.interval(flat, LEVEL))


def _median(values: Array) -> float:
    found = values[np.isfinite(values)]
    return float(np.median(found)) if found.size else float("nan")


def _share(values: NDArray[np.bool_]) -> float:
    return float(values.mean()) if values.size else float("nan")
