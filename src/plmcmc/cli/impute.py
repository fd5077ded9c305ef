"""`plmcmc impute`, `plmcmc fit` and `plmcmc info`: files with holes in, files without out."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Shown

from plmcmc.cli.columns import Plan, plan_of_model, plan_of_tables
from plmcmc.cli.kinds import Kinds
from plmcmc.cli.request import check_directory, check_free, check_options, places_of
from plmcmc.cli.tables import Table, read_tables, write_files
from plmcmc.data import DataError
from plmcmc.imputation import EFFORTS, FlowImputer

SEED = 0


def impute(arguments: Namespace) -> None:
    """Fill the holes of files with tables, by a saved model or one fitted to all of them."""
    began = time.perf_counter()
    check_options(arguments)
    paths = [Path(name) for name in arguments.data]
    places = places_of(paths, Path(arguments.output), arguments.draws)
    check_free([place for own in places for place in own], overwrite=arguments.overwrite)
    imputer = _loaded(arguments) if arguments.model else None
    tables = read_tables(paths, arguments.na_values)
    plan = plan_of_model(imputer, tables) if imputer else plan_of_tables(tables, arguments)
    _tell_passed(plan, tables)
    holes = {n: sum(table.holes(n) for table in tables) for n in plan.known.kinds}
    frames = [table.frame(plan.known) for table in tables]
    if any(holes.values()):
        imputer = imputer or _fitted(arguments, plan, frames)
    else:
        _say("Nothing to fill: no cell of the columns to fill is missing. Copying.")
        imputer = None
    written = _imputed(imputer, arguments.draws, plan.known, tables, frames)
    write_files(
        pair
        for own, contents in zip(places, written, strict=True)
        for pair in zip(own, contents, strict=True)
    )
    _tell_filled(plan, holes, sum(table.rows for table in tables))
    for own in places:
        _say(f"Written: {', '.join(map(str, own))}")
    _say(f"{time.perf_counter() - began:.1f} s in all.")


def fit(arguments: Namespace) -> None:
    """Learn from files with tables, and save what was learned."""
    began = time.perf_counter()
    place = Path(arguments.output)
    if place.exists() and not arguments.overwrite:
        raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
    check_directory(place.parent)
    tables = read_tables([Path(name) for name in arguments.data], arguments.na_values)
    plan = plan_of_tables(tables, arguments)
    _tell_passed(plan, tables)
    if not plan.known.kinds:
        raise ValueError("expected a column to learn from; say with --types what they are")
    imputer = _fitted(arguments, plan, [table.frame(plan.known) for table in tables])
    imputer.save(place, overwrite=arguments.overwrite)
    rows = sum(table.rows for table in tables)
    _say(f"Learned {len(plan.known.kinds)} columns from {rows} rows.\nWritten: {place}")
    _say(f"{time.perf_counter() - began:.1f} s in all.")


def info(path: str) -> None:
    """Print what a saved imputer holds."""
    imputer = FlowImputer.load(path)
    layout = imputer.layout_
    shown = Shown(title=escape(path))
    for name in ("column", "kind", "levels"):
        shown.add_column(name)
    for name, kind, levels in zip(layout.names, layout.kinds, layout.levels, strict=True):
        words = [str(level) for level in levels or ()]
        more = f" ... ({len(words)} in all)" if len(words) > 10 else ""
        shown.add_row(escape(name), kind, escape(", ".join(words[:10]) + more))
    Console().print(shown)
    effort = imputer.effort_
    named = next((name for name, known in EFFORTS.items() if known == effort), "custom")
    _say(
        f"effort: {named}\nmembers: {effort.members}\nseed: {imputer.seed_}\n"
        f"statistic: {imputer.statistic}"
    )


def _loaded(arguments: Namespace) -> FlowImputer:
    imputer = FlowImputer.load(arguments.model)
    if arguments.statistic:
        imputer.statistic = arguments.statistic
    if arguments.seed is not None:
        imputer.seed_ = arguments.seed
    return imputer


def _fitted(arguments: Namespace, plan: Plan, frames: Sequence[pd.DataFrame]) -> FlowImputer:
    imputer = FlowImputer(
        arguments.effort or "default",
        statistic=getattr(arguments, "statistic", None) or "mean",
        types=dict(plan.known.kinds),
        random_state=SEED if arguments.seed is None else arguments.seed,
    )
    return imputer.fit(frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True))


def _imputed(
    imputer: FlowImputer | None,
    draws: int | None,
    known: Kinds,
    tables: Sequence[Table],
    frames: Sequence[pd.DataFrame],
) -> list[list[bytes]]:
    """Return the contents of the files to write for each table; copies, if there is no imputer."""
    found = []
    for table, frame in zip(tables, frames, strict=True):
        with _named(table.path):
            if imputer is None:
                filled = [frame] * (draws or 1)
            else:
                filled = imputer.complete(frame, draws) if draws else [imputer.transform(frame)]
        found.append([table.filled(known, completed) for completed in filled])
    return found


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file an imputer's message is about, and how it counts rows."""
    try:
        yield
    except DataError as error:
        raise ValueError(f"{path} (rows of data counted from 0): {error}") from None


def _tell_passed(plan: Plan, tables: Sequence[Table]) -> None:
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
        _say(f"Passed through untouched: {listed}.")


def _left(holes: int) -> str:
    return f"; {holes} missing" if holes else ""


def _tell_filled(plan: Plan, holes: Mapping[str, int], rows: int) -> None:
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
            shown.add_row(escape(name), plan.known.kinds[name], str(count), share)
    Console().print(shown)


def _say(text: str) -> None:
    # Names of columns and files may look like markup; long lines are for the terminal to wrap.
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
