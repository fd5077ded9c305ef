"""`plmcmc info`: what a saved imputer holds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Shown

from plmcmc.cli.printable import named, one_line
from plmcmc.cli.say import say
from plmcmc.data.schema import Column, Levels
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.model import TableModel
from plmcmc.tables.kinds import counted

MOST_LEVELS = 10


def info(path: str) -> None:
    """Print what a saved imputer holds."""
    imputer = FlowImputer.load(path)
    layout, schema = imputer.layout_, imputer.model_.schema
    shown = Shown(title=escape(one_line(path)))
    for name in ("column", "kind", "values"):
        shown.add_column(name)
    for name, kind, levels, column in zip(
        layout.names, layout.kinds, layout.levels, schema.columns, strict=True
    ):
        words = _range(column) if levels is None else _listed(levels)
        shown.add_row(escape(named(name)), kind, escape(words))
    Console().print(shown)
    effort = imputer.effort_
    say(
        f"rows learned from: {imputer.rows_}\neffort: {effort.name}\n"
        f"members: {counted(effort.members, 'flow')}{_mixtures(imputer.model_)}\n"
        f"seed: {imputer.seed_}\nstatistic: {imputer.statistic}"
    )


def _mixtures(model: TableModel) -> str:
    """Return what an ensemble consists of beside flows."""
    own = model.mixture
    if own is None:
        return ""
    return f", {counted(own.members, 'mixture')} of {counted(own.components, 'Gaussian')}"


def _listed(levels: Sequence[object]) -> str:
    more = f" ... ({len(levels)} in all)" if len(levels) > MOST_LEVELS else ""
    return ", ".join(map(named, levels[:MOST_LEVELS])) + more


def _range(column: Column) -> str:
    """Return between which values a column's were, when it was learned."""
    if isinstance(column, Levels):
        return ""
    atoms = column.marginal.atoms
    return f"{atoms[0]:.6g} to {atoms[-1]:.6g}"
