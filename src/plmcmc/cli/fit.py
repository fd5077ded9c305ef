"""`plmcmc fit`: learn from files with tables, and save what was learned."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pandas as pd

from plmcmc.cli.memory_budget import rows_to_read
from plmcmc.cli.request import (
    EFFORT,
    SEED,
    STATISTIC,
    check_device,
    check_model_place,
    check_seed,
    identity_of,
)
from plmcmc.cli.say import say, silence, warn, warnings_in_words
from plmcmc.cli.summary import tell_passed, warn_of_marks
from plmcmc.disk import check_directory
from plmcmc.imputation import FlowImputer
from plmcmc.tables import Table, check_no_directory, read_tables
from plmcmc.tables.claims import is_ours
from plmcmc.tables.columns import Plan, plan_of_tables
from plmcmc.tables.job import Job, claimed_places, part_of, working
from plmcmc.tables.sample import sampled
from plmcmc.training.tables.team import Team, torchrun_team

# Of fewer rows nothing can be learned that would be worth filling in.
LEAST_ROWS = 10


def check_rows(rows: int | None) -> None:
    """Refuse to learn from a sample of next to nothing."""
    if rows is not None and rows < LEAST_ROWS:
        raise ValueError(f"--rows must be at least {LEAST_ROWS}; got {rows}")


def fit(arguments: Namespace) -> None:
    """Learn from files with tables, and save it; as torchrun starts them, in several processes."""
    with torchrun_team(arguments.device) as team, nullcontext() if team.leads else silence():
        _fit(arguments, team)


def _fit(arguments: Namespace, team: Team) -> None:
    began = time.perf_counter()
    place = Path(arguments.output)
    check_seed(arguments.seed)
    check_device(arguments.device)
    check_rows(arguments.rows)
    part = part_of(place, several=False)
    # What stands there may be this very job's, stopped after it had written it.
    overwrite = arguments.overwrite or is_ours(place, claimed_places(part))
    check_model_place(place, "imputer", overwrite=overwrite)
    check_directory(place.parent)
    tables = _read(arguments, team)
    plan = plan_of_tables(tables, arguments)
    tell_passed(plan, tables)
    if not plan.known.kinds:
        raise ValueError("no column can be learned from; declare column kinds with --types")
    check_enough(plan, tables)
    frames = [table.frame(plan.known) for table in tables]
    warn_of_marks(plan.known.kinds, frames)
    with warnings_in_words(), _working_together(team, part, arguments) as job:
        learned = fitted(arguments, plan, frames, job, distributed=team.size > 1)
        if team.leads:
            # Somebody may have put something there meanwhile.
            check_model_place(place, "imputer", overwrite=overwrite)
            job.claim([place])
            learned.save(place, overwrite=overwrite)
    rows = sum(table.rows for table in tables)
    by = f", in {team.size} processes" * (team.size > 1)
    say(f"Learned {len(plan.known.kinds)} columns from {rows} rows{by}.\nWritten: {place}")
    say(f"{time.perf_counter() - began:.1f} s in all.")


def _read(arguments: Namespace, team: Team) -> list[Table]:
    """Read tables: all rows, or as many at random as were asked for, or as memory holds."""
    paths = [Path(name) for name in arguments.data]
    for path in paths:
        check_no_directory(path)
    if arguments.rows is None:
        # Machines may differ, and all must learn from the same rows: the leader decides.
        arguments.rows = team.agreed(rows_to_read(paths, team.beside) or 0) or None
        why = "all rows would not fit into memory"
    else:
        why = "as set by --rows"
    if arguments.rows is None:
        return read_tables(paths, arguments.na_values, arguments.exclude)
    seed = SEED if arguments.seed is None else arguments.seed
    found = sampled(paths, arguments.na_values, arguments.rows, seed, arguments.exclude)
    taken = sum(table.rows for table in found.tables)
    if taken < found.rows:
        say(
            f"Learning from {taken:,} of {found.rows:,} rows, chosen at random (seed {seed}): "
            f"{why}."
        )
    return found.tables


@contextmanager
def _working_together(team: Team, part: Path, arguments: Namespace) -> Iterator[Job]:
    """Let the leader of a team keep the job; others read what it keeps, once it is there."""
    if not team.leads:
        team.wait()
        yield Job(part)
        return
    with working(
        part, identity_of("fit", arguments), overwrite=arguments.overwrite, tell=say
    ) as job:
        team.wait()
        yield job


def check_enough(plan: Plan, tables: Sequence[Table]) -> None:
    """Refuse to learn from next to nothing, and warn of little."""
    rows, columns = sum(table.rows for table in tables), len(plan.known.kinds)
    if rows < LEAST_ROWS:
        raise ValueError(
            f"{', '.join(str(table.path) for table in tables)}: expected at least {LEAST_ROWS} "
            f"rows to learn from; got {rows}. Add rows, or fill them with --model, using a model "
            "fitted on other data"
        )
    if columns > rows:
        warn(
            f"there are more columns ({columns}) than rows ({rows}): filled-in values will "
            "reflect little more than each column's own distribution. Add rows, or --exclude "
            "columns"
        )


def fitted(
    arguments: Namespace,
    plan: Plan,
    frames: Sequence[pd.DataFrame],
    job: Job,
    *,
    distributed: bool = False,
) -> FlowImputer:
    """Return an imputer that has learned from all of the frames."""
    imputer = FlowImputer(
        arguments.effort or EFFORT,
        statistic=getattr(arguments, "statistic", None) or STATISTIC,
        types=dict(plan.known.kinds),
        random_state=SEED if arguments.seed is None else arguments.seed,
        device=arguments.device,
        checkpoint=job.checkpoint,
        distributed=distributed,
    )
    return imputer.fit(frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True))
