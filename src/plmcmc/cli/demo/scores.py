"""How well methods filled a table whose truth is known: numbers, and what they say in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from plmcmc.statistics import coverage, crps, interval, nmse

Array = NDArray[np.float64]
LEVEL = 0.9
# Standard errors that a difference must exceed to be more than chance.
ENOUGH = 2.0


@dataclass(frozen=True, eq=False)
class Trial:
    """What a method made of a table.

    Args:
        method: its name.
        truth: the table `(rows, columns)` before anything was hidden.
        missing: True = hidden.
        filled: what the method filled in.
        drawn: its draws `(draws, rows, columns)`, if it has any.
        seconds: what it took.
    """

    method: str
    truth: Array
    missing: NDArray[np.bool_]
    filled: Array
    drawn: Array | None
    seconds: float

    @property
    def nmse(self) -> float:
        """Normalised mean squared error, by the paper's row formula."""
        return nmse(self.truth, self.filled, self.missing)

    @property
    def crps(self) -> float | None:
        """Mean CRPS in deviations of the columns; None without draws."""
        return None if self.drawn is None else float(self.entry_scores.mean())

    @property
    def coverage(self) -> float | None:
        """Share of hidden values in their 90% intervals; None without draws."""
        if self.drawn is None:
            return None
        return coverage(self.truth[self.missing], *interval(self.drawn[:, self.missing], LEVEL))

    @cached_property
    def row_errors(self) -> Array:
        """Each row's NMSE, of rows with holes."""
        spread = self.truth.std(0)
        return np.array(
            [
                nmse(self.truth[[row]], self.filled[[row]], self.missing[[row]], spread)
                for row in np.flatnonzero(self.missing.any(1))
            ]
        )

    @cached_property
    def entry_scores(self) -> Array:
        """Each hidden value's CRPS in deviations of its column."""
        if self.drawn is None:
            raise ValueError(f"{self.method} has no draws to score")
        spread = self.truth.std(0)[np.nonzero(self.missing)[1]]
        return crps(self.truth[self.missing], self.drawn[:, self.missing]) / spread


def score_table(trials: Sequence[Trial]) -> Table:
    """Return a line per method, the lowest of each column in bold."""
    table = Table(title="How well was it filled?")
    table.add_column("method", no_wrap=True)
    for name in ("NMSE", "CRPS", f"in {LEVEL:.0%} interval", "seconds"):
        table.add_column(name, justify="right")
    errors = [trial.nmse for trial in trials]
    scores = [trial.crps for trial in trials]
    for trial, error, score in zip(trials, errors, scores, strict=True):
        table.add_row(
            trial.method,
            _number(error, errors),
            _number(score, scores),
            "-" if trial.coverage is None else f"{trial.coverage:.1%}",
            f"{trial.seconds:.1f}",
        )
    return table


def verdicts(trials: Sequence[Trial]) -> list[str]:
    """Say which method is best, and whether chance may have decided."""
    rows = np.nonzero(trials[0].missing)[0]
    errors = {trial.method: trial.row_errors for trial in trials}
    scores = {trial.method: trial.entry_scores for trial in trials if trial.drawn is not None}
    return [
        _verdict("NMSE", errors, np.arange(len(trials[0].row_errors))),
        _verdict("CRPS", scores, rows),
    ]


def _number(value: float | None, others: Sequence[float | None]) -> str:
    if value is None:
        return "-"
    best = min(other for other in others if other is not None)
    return f"[bold]{value:.3f}[/]" if value == best else f"{value:.3f}"


def _verdict(measure: str, losses: dict[str, Array], rows: NDArray[np.int64]) -> str:
    order = sorted(losses, key=lambda method: losses[method].mean())
    best = order[0]
    close = [m for m in order[1:] if _within_chance(losses[m] - losses[best], rows)]
    if not close:
        return f"Lowest {measure}: {best}, by more than chance."
    words = f"Lowest {measure}: {best}. Too close to it to rule out chance: {', '.join(close)}."
    rest = len(order) - 1 - len(close)
    return f"{words} The rest are behind by more than chance." if rest else words


def _within_chance(differences: Array, rows: NDArray[np.int64]) -> bool:
    """Whether a mean difference is small beside its error; rows are independent, entries not."""
    sums, counts = np.bincount(rows, differences), np.bincount(rows)
    mean = differences.mean()
    error = np.sqrt(np.square(sums - counts * mean).sum()) / len(differences)
    return bool(mean <= ENOUGH * error)
