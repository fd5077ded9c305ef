"""`plmcmc impute`: files with holes in, files without out."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, partial
from pathlib import Path

import pandas as pd

from plmcmc.cli.fit import check_enough, fitted
from plmcmc.cli.impute_parquet import impute_in_parts, in_parts
from plmcmc.cli.memory_budget import rows_to_read
from plmcmc.cli.report import Asked, report
from plmcmc.cli.request import EFFORT, check_draws, check_options, identity_of
from plmcmc.cli.say import say, warn, warnings_in_words
from plmcmc.cli.summary import (
    tell_converged,
    tell_filled,
    tell_leftovers,
    tell_passed,
    warn_of_marks,
)
from plmcmc.distributed.request import check_flag
from plmcmc.imputation import EFFORTS, FlowImputer
from plmcmc.imputation.convergence import LEAST_STATES
from plmcmc.tables import Table, check_no_directory, read_tables, write_files
from plmcmc.tables.columns import Plan, check_levels, plan_of_model, plan_of_tables
from plmcmc.tables.fill import Filled, filled, loaded, pooled
from plmcmc.tables.job import Job, claimed_places, part_of, working
from plmcmc.tables.kinds import check_new
from plmcmc.tables.places import check_free, check_outlasts, places_of


def impute(arguments: Namespace) -> int:
    """Fill the holes of files with tables, by a saved model or one fitted to all of them.

    Returns the exit code: 1, if some of many files could not be filled, and the others are.
    """
    check_options(arguments)
    for name in arguments.data:
        check_no_directory(Path(name))
    if in_parts(arguments):
        return impute_in_parts(arguments)
    _impute_whole(arguments)
    return 0


def _impute_whole(arguments: Namespace) -> None:
    """Read all tables, fill them, and write them in the end."""
    began = time.perf_counter()
    paths, output = [Path(name) for name in arguments.data], Path(arguments.output)
    if len(paths) == 1 and arguments.output.endswith(("/", os.sep)):
        raise ValueError(
            f"{arguments.output} is a directory: expected a file, as there is only one table. "
            "Give a file name"
        )
    check_draws(paths, arguments.draws)
    places = [place for own in places_of(paths, output, arguments.draws) for place in own]
    places += [Path(arguments.report)] if arguments.report else []
    part = part_of(output, several=len(paths) > 1)
    check_outlasts(places, part)
    check_free(places, overwrite=arguments.overwrite, ours=claimed_places(part), data=paths)
    if rows_to_read(paths) is not None:
        warn(
            "these files may not fit into memory. Convert them to Parquet, learn from some of the "
            "rows (plmcmc fit --rows), and fill them with that --model, which needs little memory"
        )
    asked = {"statistic": arguments.statistic, "seed": arguments.seed}
    by_model = arguments.model is not None
    imputer = loaded(arguments.model, arguments.device, **asked) if by_model else None
    tables = read_tables(paths, arguments.na_values, arguments.exclude)
    if arguments.flag is not None:
        _check_flag(arguments, imputer, tables)
    plan = plan_of_model(imputer, tables) if imputer else plan_of_tables(tables, arguments)
    tell_passed(plan, tables)
    frames = [table.frame(plan.known) for table in tables]
    holes = {n: sum(table.holes(n) for table in tables) for n in plan.known.kinds}
    _check(imputer, plan, tables, frames, holes=any(holes.values()))
    identity = identity_of("impute", arguments)
    with (
        warnings_in_words(),
        working(part, identity, overwrite=arguments.overwrite, tell=say) as job,
    ):
        learned = cache(lambda: imputer or fitted(arguments, plan, frames, job))
        done = _done(job, learned, arguments, plan, tables, frames)
        contents = [content for own in done for content in own.contents]
        if arguments.report:
            say("Diagnosing the imputed values, for the report.")
            asked, found = Asked(arguments, plan, tables, frames), pooled([o.found for o in done])
            contents.append(report(asked, found, learned() if found.holes else None).encode())
        # Somebody may have put something there meanwhile.
        check_free(places, overwrite=arguments.overwrite, ours=claimed_places(part), data=paths)
        job.claim(dict(zip(places, contents, strict=True)))
        write_files(zip(places, contents, strict=True))
    tell_filled(plan.known.kinds, holes, sum(table.rows for table in tables))
    tell_converged([own.found for own in done])
    say("\n".join(f"Written: {place}" for place in places))
    tell_leftovers(paths, output, arguments.draws)
    say(f"{time.perf_counter() - began:.1f} s in all.")


def _check_flag(arguments: Namespace, imputer: FlowImputer | None, tables: Sequence[Table]) -> None:
    """Refuse a flag that could not be told, or not be added."""
    if imputer:
        check_flag(imputer, arguments.flag, arguments.draws)
    elif EFFORTS[arguments.effort or EFFORT].states < LEAST_STATES:
        raise ValueError(
            f"--flag marks rows that have converged, but --effort {arguments.effort} runs too few "
            f"steps to check convergence: choose --effort default or thorough"
        )
    for table in tables:
        check_new(table.path, table.names, arguments.flag)


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
    else:
        warn_of_marks(plan.known.kinds, frames)
        if holes:
            check_enough(plan, tables)
    if not holes:
        say("Nothing to fill: no cell is missing in the columns to fill. Copying the data.")


def _at(learned: Callable[[], FlowImputer], number: int) -> FlowImputer:
    """Return the imputer with the seed of a file among several."""
    imputer = copy(learned())
    imputer.origin_ = (number, 0)
    return imputer


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
            options = {"draws": arguments.draws, "flag": arguments.flag}
            own = filled(partial(_at, learned, number), plan.known, table, frame, **options)
            job.keep(number, own)
        found.append(own)
    return found
