"""`plmcmc impute`: files with holes in, files without out."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from plmcmc.cli.fit import check_enough, fitted
from plmcmc.cli.job import Filled, Found, Job, is_placing, part_of, working
from plmcmc.cli.report import Asked, report
from plmcmc.cli.request import EFFORT, check_free, check_options, identity_of, leftovers, places_of
from plmcmc.cli.say import say, warn, warnings_in_words
from plmcmc.cli.summary import pooled, tell_converged, tell_filled, tell_passed
from plmcmc.cli.tables import Table, read_tables, write_files
from plmcmc.cli.tables.columns import Plan, check_levels, plan_of_model, plan_of_tables
from plmcmc.cli.tables.kinds import Flag
from plmcmc.imputation import EFFORTS, FlowImputer
from plmcmc.imputation.convergence import LEAST_STATES


def impute(arguments: Namespace) -> None:
    """Fill the holes of files with tables, by a saved model or one fitted to all of them."""
    began = time.perf_counter()
    check_options(arguments)
    paths, output = [Path(name) for name in arguments.data], Path(arguments.output)
    places = [place for own in places_of(paths, output, arguments.draws) for place in own]
    places += [Path(arguments.report)] if arguments.report else []
    part = part_of(output, several=len(paths) > 1)
    check_free(places, overwrite=arguments.overwrite or is_placing(part))
    imputer = _loaded(arguments) if arguments.model else None
    tables = read_tables(paths, arguments.na_values)
    if arguments.flag is not None:
        _check_flag(arguments, imputer, tables)
    plan = plan_of_model(imputer, tables) if imputer else plan_of_tables(tables, arguments)
    tell_passed(plan, tables)
    frames = [table.frame(plan.known) for table in tables]
    holes = {n: sum(table.holes(n) for table in tables) for n in plan.known.kinds}
    _check(imputer, plan, tables, frames, holes=any(holes.values()))
    identity = identity_of("impute", arguments)
    with warnings_in_words(), working(part, identity, overwrite=arguments.overwrite) as job:
        learned = cache(lambda: imputer or fitted(arguments, plan, frames, job))
        done = _done(job, learned, arguments, plan, tables, frames)
        contents = [content for own in done for content in own.contents]
        if arguments.report:
            say("Looking at what was drawn, for the report.")
            asked, found = Asked(arguments, plan, tables, frames), pooled([o.found for o in done])
            contents.append(report(asked, found, learned() if found.holes else None).encode())
        job.place()
        write_files(zip(places, contents, strict=True))
    tell_filled(plan, holes, sum(table.rows for table in tables))
    tell_converged([own.found for own in done])
    say("\n".join(f"Written: {place}" for place in places))
    old = leftovers(paths, output, arguments.draws)
    if old:
        names = ", ".join(map(str, old))
        warn(f"{names}: of another job with more draws. Do not pool them with these")
    say(f"{time.perf_counter() - began:.1f} s in all.")


def _loaded(arguments: Namespace) -> FlowImputer:
    imputer = FlowImputer.load(arguments.model, device=arguments.device)
    if arguments.statistic:
        imputer.statistic = arguments.statistic
    if arguments.seed is not None:
        imputer.seed_ = arguments.seed
    return imputer


def _check_flag(arguments: Namespace, imputer: FlowImputer | None, tables: Sequence[Table]) -> None:
    """Refuse a flag that could not be told, or not be added."""
    effort = imputer.effort_ if imputer else EFFORTS[arguments.effort or EFFORT]
    if effort.states < LEAST_STATES:
        whose = "the model's effort" if imputer else f"--effort {arguments.effort}"
        raise ValueError(
            f"--flag tells what has converged, and {whose} runs too few steps to tell: choose "
            f"--effort default or thorough{' when fitting' * bool(imputer)}"
        )
    if imputer and imputer.statistic == "draw":
        raise ValueError(
            "--flag is told by chains that run on, and the model draws one state of each: ask for "
            "--statistic mean or median"
        )
    for table in tables:
        if arguments.flag in table.names:
            raise ValueError(
                f"{table.path}: --flag {arguments.flag} is to add a column, and there is one of "
                f"that name: choose another"
            )


def _check(
    imputer: FlowImputer | None,
    plan: Plan,
    tables: Sequence[Table],
    frames: Sequence[pd.DataFrame],
    *,
    holes: bool,
) -> None:
    """Refuse before the work what could not be filled."""
    if imputer is not None:
        for table, frame in zip(tables, frames, strict=True):
            check_levels(plan.known, table, frame)
    elif holes:
        check_enough(plan, tables)
    if not holes:
        say("Nothing to fill: no cell of the columns to fill is missing. Copying.")


def _done(
    job: Job,
    learned: Callable[[], FlowImputer],
    arguments: Namespace,
    plan: Plan,
    tables: Sequence[Table],
    frames: Sequence[pd.DataFrame],
) -> list[Filled]:
    """Return the tables filled, those that are kept already as they are."""
    found = []
    for number, (table, frame) in enumerate(zip(tables, frames, strict=True)):
        own = job.filled(number)
        if own is None:
            own = _filled(learned, arguments, plan, table, frame)
            job.keep(number, own)
        found.append(own)
    return found


def _filled(
    learned: Callable[[], FlowImputer],
    arguments: Namespace,
    plan: Plan,
    table: Table,
    frame: pd.DataFrame,
) -> Filled:
    """Return what to write of one table; copies, if nothing of it is missing."""
    missing, draws = frame.isna().to_numpy(), arguments.draws
    rows, settled = missing.any(1), np.ones(len(missing), dtype=bool)
    completed, found = [frame] * (draws or 1), Found(0, None, 0, None)
    if rows.any():
        imputer = learned()
        completed = imputer.complete(frame, draws) if draws else [imputer.transform(frame)]
        _check_filled(table, completed)
        told = imputer.convergence_ if imputer.convergence_.checked else None
        if told is not None:
            settled[rows] = told.rows
        found = Found(
            int(rows.sum()),
            None if told is None else int(told.rows.sum()),
            int(missing.sum()),
            None if told is None else told.share,
            int(imputer.convergence_.stuck.sum()),
        )
    flag = None if arguments.flag is None else Flag(arguments.flag, settled.tolist())
    return Filled([table.filled(plan.known, own, flag) for own in completed], found)


def _check_filled(table: Table, completed: Sequence[pd.DataFrame]) -> None:
    """Refuse to write what is no value: chains may have gone astray."""
    for frame in completed:
        left = [name for name in frame.columns if frame[name].isna().to_numpy().any()]
        if left:
            raise ValueError(
                f"{table.path}, columns {left}: no values were found to fill in. Look for a column "
                f"in which nearly every value occurs once, and --exclude it; if there is none, "
                f"please report this"
            )
