"""`plmcmc.distributed.impute`: Parquet files of any size, filled by a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plmcmc import __version__
from plmcmc.disk import hashes_of
from plmcmc.distributed.file_numbers import Numbered, numbered
from plmcmc.distributed.job_run import Done, JobRun
from plmcmc.distributed.manifest import Manifest
from plmcmc.distributed.on_ray import OnRay
from plmcmc.distributed.request import (
    check_apart,
    check_asked,
    check_flag,
    is_directory,
    path_of,
    paths_of,
    whole_number,
    words_of,
)
from plmcmc.distributed.sources import looked_at
from plmcmc.distributed.work_plan import Engine, Line, Order, Task
from plmcmc.distributed.worker import Worker, model_of
from plmcmc.imputation.convergence import warn_of_few
from plmcmc.tables import check_readable
from plmcmc.tables.job import MANIFEST, claimed_places, part_of, working
from plmcmc.tables.kinds import listed
from plmcmc.tables.places import check_free, places_of


def impute(
    data: str | Path | Sequence[str | Path],
    model: str | Path,
    output: str | Path,
    *,
    engine: str = "stream",
    address: str | None = None,
    workers: int | None = None,
    gpus_per_worker: float = 0,
    statistic: str | None = None,
    draws: int | None = None,
    flag: str | None = None,
    seed: int | None = None,
    na_values: Sequence[str] = (),
    device: str = "cpu",
    overwrite: bool = False,
    progress: bool | None = None,
    tell: Callable[[str], None] = print,
) -> Done:
    """Fill missing values in Parquet files with a saved model, in bounded memory; can resume.

    The output depends on the files, the model and the seed, but not on the engine, or on the number
    and timing of workers. Finished work is kept next to the output, with a manifest: if
    interrupted, the same call resumes. A file that cannot be read or filled is reported, and the
    others are filled; once it is fixed, the same call fills it, and a call that leaves it out of
    `data`, without `overwrite`, finishes the job without it. If nothing could be filled, and the
    same call would fail again, nothing is kept.

    Args:
        data: one or several Parquet files with the model's columns; other columns pass through.
        model: a model saved by `FlowImputer.save` or `plmcmc fit`.
        output: a directory; or, for a single input file, a file, if the name has a suffix and does
            not end in `/`.
        engine: `"stream"` (this process) or `"ray"`.
        address: address of a Ray cluster; by default Ray is started on this machine.
        workers: number of Ray workers, at most the number of cores; by default one per core, or one
            per share of a GPU.
        gpus_per_worker: GPUs per Ray worker; a fraction lets workers share one.
        statistic: `"mean"`, `"median"` or `"draw"`; by default the model's.
        draws: write this many tables of random draws per file instead.
        flag: add a column with this name that marks rows that have converged.
        seed: random seed; by default the model's.
        na_values: words that mark missing values; write numbers as strings, too.
        device: device used by this process.
        overwrite: replace existing output, and discard the progress of a different, interrupted
            job.
        progress: show a bar; by default on a terminal only.
        tell: called with messages, such as that a job is resumed.

    Raises:
        ValueError: if nothing can be filled, with the reason.
        OSError: if input is missing, output exists, or the disk is full; finished work is kept.
    """
    paths, words = paths_of(data), words_of(na_values)
    directory, output = is_directory(output, len(paths)), Path(output)
    workers = whole_number("workers", workers, 1)
    draws = whole_number("draws", draws, 1)
    seed = whole_number("seed", seed, 0)
    check_asked(paths, engine, address, workers, gpus_per_worker, draws, statistic, device)
    model = path_of("model", model)
    check_apart(output, model)
    run: Engine = streamed
    if engine == "ray":
        run = OnRay(address, workers, gpus_per_worker)
        run.check()
    for path in paths:
        check_readable(path)
    places = places_of(paths, output, draws, directory=directory)
    part = part_of(output, several=directory)
    every = [place for own in places for place in own]
    check_free(every, overwrite=overwrite, ours=claimed_places(part), data=paths)
    kept = part.absolute()
    order = Order(model.absolute(), kept, draws, statistic, seed, flag, words, device)
    imputer = model_of(order)
    check_flag(imputer, flag, draws)
    identity = _identity(order, paths, gpus_per_worker)
    files = numbered(paths, part, identity, overwrite=overwrite)
    identity["data"] = files.names
    try:
        with working(part, identity, overwrite=overwrite, tell=tell) as job:
            if files.left_out:
                tell(f"Not named this time, and left out: {listed(list(files.left_out.values()))}.")
            looked = looked_at(files.paths, places, imputer, order, progress)
            manifest = Manifest(part / MANIFEST, looked.sources, order, overwrite=overwrite)
            manifest.refuse(looked.problems)
            job_run = JobRun(job, manifest, looked.problems)
            job_run.run(run, progress)
            job_run.tell_of_old(_by_number(files, places, output, draws))
            done = job_run.done(files.paths, looked.passed, imputer)
            if done.problems or job_run.waits_for(files.left_out):
                raise _Unfinished(done)
    except _Unfinished as ended:
        done = ended.done
    warn_of_few(done.found.share)
    return done


def streamed(order: Order, tasks: Sequence[Task]) -> Iterator[Line]:
    """Have tasks done by this process, one after the other: memory holds one part at a time."""
    worker = Worker(order)
    for task in tasks:
        yield from worker.work(task)


def _by_number(
    files: Numbered, places: Sequence[list[Path]], output: Path, draws: int | None
) -> dict[int, list[Path]]:
    """Return the places of all files of a job: also of those that were left out."""
    names = [Path(name) for name in files.left_out.values()]
    left = places_of(names, output, draws, directory=True)
    return dict(zip([*files.paths, *files.left_out], [*places, *left], strict=True))


class _Unfinished(Exception):
    """Some files could not be filled, or wait: what is done stays noted for the next run."""

    def __init__(self, done: Done) -> None:
        super().__init__()
        self.done = done


def _identity(order: Order, paths: Sequence[Path], gpus: float) -> dict[str, Any]:
    """Return what makes a job this job; what is in its files, the manifest knows."""
    return {
        "command": "impute, part by part",
        "plmcmc": __version__,
        "data": [path.name for path in paths],
        "na-values": list(order.na_values),
        "seed": order.seed,
        "device": "cuda" if gpus else order.device,
        "model": hashes_of(order.model),
        "draws": order.draws,
        "statistic": order.statistic,
        "flag": order.flag,
    }
