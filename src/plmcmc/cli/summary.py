"""What was left, filled and found, told on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Shown

from plmcmc.cli.printable import named
from plmcmc.cli.say import say, warn
from plmcmc.imputation.convergence import CONVERGED, LIMIT
from plmcmc.storage.strict_json import shown
from plmcmc.tables import Table
from plmcmc.tables.columns import Plan
from plmcmc.tables.fill import Found, pooled
from plmcmc.tables.kinds import counted
from plmcmc.tables.places import leftovers


def tell_passed(plan: Plan, tables: Sequence[Table]) -> None:
    """Say which columns are left as they are, and why; refuse to work if those are all."""
    left = {name: sum(table.holes(name) for table in tables) for name in plan.passed}
    if any(left.values()) and not plan.known.kinds:
        raise ValueError(
            "no column can be learned from; all would pass through untouched: "
            f"{_listed(plan.passed, left)}. Declare column kinds with --types"
        )
    tell_left(plan.passed, left)


def tell_left(passed: Mapping[str, str], left: Mapping[str, int]) -> None:
    """Say which columns are left as they are, why, and how many of their cells are missing."""
    if passed:
        say(f"Passed through untouched: {_listed(passed, left)}.")


def _listed(passed: Mapping[str, str], left: Mapping[str, int]) -> str:
    return ", ".join(
        f"{named(name)} ({reason}{_left(left.get(name, 0))})" for name, reason in passed.items()
    )


def _left(holes: int) -> str:
    return f"; {holes} missing" if holes else ""


def warn_of_marks(kinds: Mapping[str, str], frames: Sequence[pd.DataFrame]) -> None:
    """Warn of a category without letters or digits: it may mark what is missing."""
    for name in (name for name, kind in kinds.items() if kind == "categorical"):
        words = {str(word) for frame in frames for word in frame[name].dropna().unique()}
        marks = [word for word in words if not any(map(str.isalnum, word))]
        # Of several, such as + and -, each is likely to have a meaning.
        if len(marks) == 1 and len(words) > 1:
            warn(
                f"column {named(name)}: {shown(marks[0])} is taken for a category. If it marks "
                "missing values, add it to --na-values"
            )


def tell_filled(kinds: Mapping[str, str], holes: Mapping[str, int], rows: int) -> None:
    """Show what was filled, a line per column that had holes."""
    if not any(holes.values()):
        return
    values = counted(sum(holes.values()), "missing value")
    table = Shown(title=f"{counted(rows, 'row')}, {values} filled")
    table.add_column("column")
    table.add_column("kind")
    table.add_column("filled", justify="right")
    table.add_column("share of rows", justify="right")
    for name, count in holes.items():
        if count:
            share = f"{100 * count / rows:.1f}%"
            table.add_row(escape(named(name)), kinds[name], str(count), share)
    Console().print(table)


def tell_leftovers(
    paths: Sequence[Path], output: Path, draws: int | None, *, directory: bool = False
) -> None:
    """Warn of tables of a job with more draws, which stand beside those that were written."""
    old = leftovers(paths, output, draws, directory=directory)
    if old:
        names = ", ".join(map(str, old))
        warn(
            f"{names}: left over from an earlier run with more draws; do not pool them with the "
            "new files"
        )


def tell_converged(tables: Sequence[Found]) -> None:
    """Say how chains converged, if that can be told, and warn if they did not."""
    found = pooled(tables)
    if found.stuck:
        warn(
            f"in {found.stuck} of {found.rows} rows a chain never moved, so the values it filled "
            "in are its starting point: check those rows for values far from all others, and use "
            "--effort thorough"
        )
    if found.share is None:
        return
    say(
        f"Converged (R-hat under {LIMIT}): {found.share:.0%} of the missing values; all of them in "
        f"{found.settled} of {found.rows} rows."
    )
    if found.share < CONVERGED:
        warn(
            f"only {found.share:.0%} of the missing values have converged: use --effort thorough, "
            "and check a --report"
        )
