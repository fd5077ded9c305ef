"""`plmcmc impute` of Parquet files by a model: part by part, in bounded memory, here or on Ray."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from plmcmc.cli.say import say, warn, warnings_in_words
from plmcmc.cli.summary import tell_converged, tell_filled, tell_left, tell_leftovers
from plmcmc.distributed import Done, impute
from plmcmc.tables import form_of
from plmcmc.tables.job import part_of

SOME_FAILED = 1
# More files than these are not listed one by one.
MANY = 20


def in_parts(arguments: Namespace) -> bool:
    """Whether files are filled part by part: if asked for, or if nothing speaks against it."""
    stored = all(form_of(Path(name)) == ".parquet" for name in arguments.data)
    return bool(arguments.engine or (arguments.model and stored and not arguments.report))


def impute_in_parts(arguments: Namespace) -> int:
    """Fill files, and tell of them; return 1 if some could not be, and the others are."""
    began = time.perf_counter()
    with warnings_in_words():
        done = impute(
            arguments.data,
            arguments.model,
            arguments.output,
            engine=arguments.engine or "stream",
            address=arguments.address,
            workers=arguments.num_workers,
            gpus_per_worker=arguments.gpus_per_worker or 0,
            statistic=arguments.statistic,
            draws=arguments.draws,
            flag=arguments.flag,
            seed=arguments.seed,
            na_values=arguments.na_values,
            device=arguments.device,
            overwrite=arguments.overwrite,
            tell=say,
        )
    _tell(arguments, done)
    say(f"{time.perf_counter() - began:.1f} s in all.")
    return SOME_FAILED if done.problems else 0


def _tell(arguments: Namespace, done: Done) -> None:
    """Say what was done, and what could not be."""
    tell_left(done.passed, done.missing)
    tell_filled(done.kinds, {n: done.missing.get(n, 0) for n in done.kinds}, done.rows)
    tell_converged([done.found])
    _tell_written(done.written)
    paths = [Path(name) for name in arguments.data]
    output = Path(arguments.output)
    tell_leftovers(paths, output, arguments.draws, directory=output.is_dir())
    for problem in done.problems.values():
        warn(f"not filled: {problem}")
    if done.problems:
        # To overwrite with fewer files is another job.
        again = "again, without --overwrite," if arguments.overwrite else "again,"
        say(
            f"{len(done.problems)} of {len(paths)} files could not be filled; the others are "
            "done. Fix them and run the same command, which fills only these; or leave them out "
            f"of DATA and run it {again} to finish without them. Until then "
            f"{part_of(output, several=True)} is kept, and other options need --overwrite, which "
            "discards it."
        )


def _tell_written(places: Sequence[Path]) -> None:
    """Say which files were written; of very many, which were the first and the last."""
    if len(places) <= MANY:
        say("\n".join(f"Written: {place}" for place in places))
    else:
        say(f"Written: {len(places)} files, {places[0]} to {places[-1]}")
