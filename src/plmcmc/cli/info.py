"""`plmcmc info`: what a saved imputer holds."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Shown

from plmcmc.cli.printable import printable
from plmcmc.cli.say import say
from plmcmc.data.schema import Column, Levels
from plmcmc.imputation import EFFORTS, FlowImputer

MOST_LEVELS = 10


def info(path: str) -> None:
    """Print what a saved imputer holds."""
    imputer = FlowImputer.load(path)
    layout, schema = imputer.layout_, imputer.model_.schema
    shown = Shown(title=escape(printable(path)))
    for name in ("column", "kind", "values"):
        shown.add_column(name)
    for name, kind, levels, column in zip(
        layout.names, layout.kinds, layout.levels, schema.columns, strict=True
    ):
        words = _range(column) if levels is None else _listed([str(level) for level in levels])
        shown.add_row(escape(printable(name)), kind, escape(printable(words)))
    Console().print(shown)
    effort = imputer.effort_
    named = next((name for name, known in EFFORTS.items() if known == effort), "custom")
    say(
        f"rows learned from: {imputer.rows_}\neffort: {named}\nmembers: {effort.members}\n"
        f"seed: {imputer.seed_}\nstatistic: {imputer.statistic}"
    )


def _listed(words: list[str]) -> str:
    more = f" ... ({len(words)} in all)" if len(words) > MOST_LEVELS else ""
    return ", ".join(words[:MOST_LEVELS]) + more


def _range(column: Column) -> str:
    """Return between which values a column's were, when it was learned."""
    if isinstance(column, Levels):
        return ""
    atoms = column.marginal.atoms
    return f"{atoms[0]:.6g} to {atoms[-1]:.6g}"
