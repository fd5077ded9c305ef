"""What to beware of, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from plmcmc.imputation.convergence import CONVERGED, LIMIT
from plmcmc.imputation.diagnosis import LEVEL, Diagnosis
from plmcmc.tables.fill import Found
from plmcmc.tables.kinds import counted

# Shares of a column's cells, and numbers of values, from which on there is a warning.
NEARLY_ALL, FEW_VALUES, FEW_ROWS = 0.8, 30, 100
NAMED = 8


class Column(NamedTuple):
    """What a column of the table is.

    Attributes:
        name: its name.
        kind: what it was taken for; None where it passes through.
        passed: why it passes through; None where it is filled.
        missing: how many of its cells are.
        values: how many different values it has; None where it passes through.
    """

    name: str
    kind: str | None
    passed: str | None
    missing: int
    values: int | None


def warnings_of(
    columns: Sequence[Column],
    rows: int,
    nothing_seen: int,
    found: Found,
    diagnosis: Diagnosis | None,
) -> list[str]:
    """Return what to beware of, the worst first.

    Args:
        columns: of the table.
        rows: how many it has.
        nothing_seen: rows of which nothing is known.
        found: how its chains converged.
        diagnosis: of some rows; None if nothing was missing.
    """
    known = [column for column in columns if column.kind is not None]
    return [
        *_of_chains(found, diagnosis),
        *_of_coverage(diagnosis),
        *_of_rows(known, rows, nothing_seen),
        *_of_columns(known, rows),
        *_of_passed(columns),
    ]


def converged_share(found: Found, diagnosis: Diagnosis) -> float:
    """Return the share of missing values that have converged: of all, or of those looked at."""
    return diagnosis.converged_share if found.share is None else found.share


def _of_chains(found: Found, diagnosis: Diagnosis | None) -> Iterator[str]:
    if found.stuck:
        yield (
            f"In {found.stuck} of {found.rows} rows a chain never moved, so the values it filled "
            "in are its starting point: check those rows for values far from all others, and use "
            "--effort thorough."
        )
    if diagnosis is None:
        return
    share = converged_share(found, diagnosis)
    if share < CONVERGED:
        yield (
            f"Only {share:.0%} of the missing values have converged (R-hat under {LIMIT}): "
            "filled-in values may depend on where the chains started. Use --effort thorough."
        )
    slow = [n for n, c in zip(diagnosis.names, diagnosis.converged, strict=True) if c < 0.5]
    if slow:
        yield (
            f"Less than half of the missing values have converged in {_names(slow)}: trust these "
            "columns less."
        )


def _of_coverage(diagnosis: Diagnosis | None) -> Iterator[str]:
    if diagnosis is not None and diagnosis.narrow:
        yield (
            f"Fewer values hidden on purpose than expected lay in their {LEVEL:.0%} interval in "
            f"{_names(diagnosis.narrow)}: the intervals are too narrow, and filled-in values are "
            "less certain than they look."
        )


def _of_rows(known: Sequence[Column], rows: int, nothing_seen: int) -> Iterator[str]:
    if len(known) > rows:
        yield (
            f"There are more columns ({len(known)}) than rows ({rows}): filled-in values reflect "
            "little more than each column's own distribution."
        )
    elif rows < FEW_ROWS:
        yield f"There are only {rows} rows to learn from: treat filled-in values with caution."
    if nothing_seen:
        words = "1 row has" if nothing_seen == 1 else f"{nothing_seen} rows have"
        yield (
            f"{words} no observed value in the columns to fill: filled from the overall "
            "distribution only."
        )


def _of_columns(known: Sequence[Column], rows: int) -> Iterator[str]:
    empty = [column for column in known if column.missing >= NEARLY_ALL * rows]
    for column in empty[:NAMED]:
        yield (
            f"{column.name} is missing in {column.missing / rows:.0%} of the rows; its filled-in "
            f"values are based on {counted(rows - column.missing)}."
        )
    if len(empty) > NAMED:
        yield f"{len(empty) - NAMED} more columns are almost entirely missing."
    few = [
        column.name
        for column in known
        if column.missing and rows - column.missing < FEW_VALUES and column not in empty
    ]
    if few:
        yield f"Fewer than {FEW_VALUES} values were observed in {_names(few)}."
    constant = [column.name for column in known if column.missing and column.values == 1]
    if constant:
        yield f"Only one distinct value was observed in {_names(constant)}, and it was filled in."


def _of_passed(columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        if column.passed is not None and column.missing:
            yield (
                f"{column.name} passed through ({column.passed}), and still has "
                f"{counted(column.missing, 'missing value')}."
            )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more columns" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
