"""What was left, filled and found, told on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Shown

from plmcmc.cli.job import Found
from plmcmc.cli.printable import printable
from plmcmc.cli.say import say, warn
from plmcmc.cli.tables import Table
from plmcmc.cli.tables.columns import Plan
from plmcmc.imputation.convergence import CONVERGED, LIMIT


def tell_passed(plan: Plan, tables: Sequence[Table]) -> None:
    """Say which columns are left as they are, and why; refuse to work if those are all."""
    left = {name: sum(table.holes(name) for table in tables) for name in plan.passed}
    listed = ", ".join(
        f"{name} ({reason}{_left(left[name])})" for name, reason in plan.passed.items()
    )
    if any(left.values()) and not plan.known.kinds:
        raise ValueError(
            f"expected a column to learn from; all would pass through untouched: {listed}. Say "
            f"with --types what they are"
        )
    if plan.passed:
        say(f"Passed through untouched: {listed}.")


def _left(holes: int) -> str:
    return f"; {holes} missing" if holes else ""


def tell_filled(plan: Plan, holes: Mapping[str, int], rows: int) -> None:
    """Show what was filled, a line per column that had holes."""
    if not any(holes.values()):
        return
    shown = Shown(title=f"{rows} rows, {sum(holes.values())} holes filled")
    shown.add_column("column")
    shown.add_column("kind")
    shown.add_column("filled", justify="right")
    shown.add_column("of rows", justify="right")
    for name, count in holes.items():
        if count:
            share = f"{100 * count / rows:.1f}%"
            shown.add_row(escape(printable(name)), plan.known.kinds[name], str(count), share)
    Console().print(shown)


def tell_converged(tables: Sequence[Found]) -> None:
    """Say how chains converged, if that can be told, and warn if they did not."""
    found = pooled(tables)
    if found.stuck:
        warn(
            f"in {found.stuck} of {found.rows} rows a chain never moved, and what it filled in is "
            f"where it began: look there for values far from all others, and use --effort thorough"
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
            f"and look at a --report"
        )


def pooled(tables: Sequence[Found]) -> Found:
    """Return how the chains of several tables converged, taken together."""
    names = ("rows", "holes", "stuck")
    rows, holes, stuck = (sum(getattr(own, name) for own in tables) for name in names)
    told = [own for own in tables if own.holes]
    if not told or any(own.share is None or own.settled is None for own in told):
        return Found(rows, None, holes, None, stuck)
    share = sum(own.holes * (own.share or 0.0) for own in told) / holes
    return Found(rows, sum(own.settled or 0 for own in told), holes, share, stuck)
