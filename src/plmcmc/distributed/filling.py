"""`plmcmc.distributed.impute`: Parquet files of any size, filled by a saved model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmcmc import __version__
from plmcmc.chains import Progress, progress_bar
from plmcmc.disk import WriteError, hashes_of
from plmcmc.distributed.joining import DamagedError, damaged, join, remove_parts
from plmcmc.distributed.manifest import Manifest
from plmcmc.distributed.on_ray import OnRay, RayError
from plmcmc.distributed.order import Engine, Line, Order, Source, check_unchanged, tasks_of
from plmcmc.distributed.request import (
    check_apart,
    check_asked,
    check_flag,
    is_directory,
    paths_of,
    whole_number,
    words_of,
)
from plmcmc.distributed.sources import looked_at
from plmcmc.distributed.streaming import streamed
from plmcmc.distributed.worker import model_of
from plmcmc.imputation.convergence import warn_of_few
from plmcmc.tables import check_readable
from plmcmc.tables.fill import Found, pooled
from plmcmc.tables.job import MANIFEST, Job, part_of, placing, working
from plmcmc.tables.places import check_free, places_of


@dataclass(frozen=True)
class Done:
    """What was done.

    Attributes:
        written: the files.
        problems: of files that could not be filled, what is wrong, by their path.
        rows: of all files that are written.
        missing: how many cells were, by column, those included that were not to be filled.
        passed: columns that the model does not know, and why they were left as they are.
        found: how chains converged.
    """

    written: list[Path]
    problems: dict[Path, str]
    rows: int
    missing: dict[str, int]
    passed: dict[str, str]
    found: Found


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
    task_rows: int | None = None,
    progress: bool | None = None,
    tell: Callable[[str], None] = print,
) -> Done:
    """Fill the holes of Parquet files by a saved model, in bounded memory, and go on if stopped.

    The output depends on the files, the model and the seed, not on the engine, on how many workers
    there are or on what they do when. What is done is kept beside the output, with a manifest:
    the same call does only what is missing. A file that cannot be read or filled is told of, and
    the others are done; then what is done stays noted, and the same call does that file once it is
    mended.

    Args:
        data: Parquet files, or one, with the model's columns; others pass through.
        model: what `FlowImputer.save` or `plmcmc fit` wrote.
        output: a directory; for one of data a file, if its name has a suffix and no `/` at the end.
        engine: `"stream"`, this process, or `"ray"`.
        address: of a Ray cluster; by default Ray is started on this machine.
        workers: how many Ray workers, no more than there are cores; by default one for each core,
            or for each share of a GPU.
        gpus_per_worker: GPUs that each Ray worker has; a fraction lets workers share one.
        statistic: `"mean"`, `"median"` or `"draw"`; by default the model's.
        draws: write so many tables of draws for each file instead.
        flag: add a column of this name that says which rows have converged.
        seed: by default the model's.
        na_values: words that mark a hole; numbers as words, too.
        device: where this process works.
        overwrite: replace output that is there, and throw away another job that was stopped.
        task_rows: rows that a worker is given at once; what is filled in does not depend on it.
        progress: show a bar; by default on a terminal only.
        tell: told in words that a job goes on.

    Raises:
        ValueError: if nothing can be filled, saying why.
        OSError: if files are not there, outputs are, or the disk is full; what is done is kept.
    """
    paths, words = paths_of(data), words_of(na_values)
    directory, output = is_directory(output, len(paths)), Path(output)
    workers = whole_number("workers", workers, 1)
    draws = whole_number("draws", draws, 1)
    seed = whole_number("seed", seed, 0)
    task_rows = whole_number("task_rows", task_rows, 1)
    check_asked(paths, engine, address, workers, gpus_per_worker, draws, statistic, device)
    check_apart(output, Path(model))
    for path in paths:
        check_readable(path)
    places = places_of(paths, output, draws, directory=directory)
    part = part_of(output, several=directory)
    every = [place for own in places for place in own]
    check_free(every, overwrite=overwrite, ours=placing(part), data=paths)
    kept = part.absolute()
    order = Order(Path(model).absolute(), kept, draws, statistic, seed, flag, words, device)
    imputer = model_of(order)
    check_flag(imputer, flag, draws)
    run: Engine = streamed if engine == "stream" else OnRay(address, workers, gpus_per_worker)
    identity = _identity(order, paths, gpus_per_worker)
    try:
        with working(part, identity, overwrite=overwrite, tell=tell) as job:
            looked = looked_at(paths, places, imputer, order, progress)
            manifest = Manifest(part / MANIFEST, looked.sources, order, overwrite=overwrite)
            course = _Course(job, manifest, looked.problems)
            course.run(run, task_rows, progress)
            done = course.done(paths, looked.passed)
            if done.problems:
                raise _Unfinished(done)
    except _Unfinished as ended:
        done = ended.done
    warn_of_few(done.found.share)
    return done


class _Unfinished(Exception):
    """Some files could not be filled: what is done stays noted for the next run."""

    def __init__(self, done: Done) -> None:
        super().__init__()
        self.done = done


class _Course:
    """A job on its way: what is done, and which files are written."""

    def __init__(self, job: Job, manifest: Manifest, problems: dict[int, str]) -> None:
        self.job, self.manifest, self.problems = job, manifest, problems
        self.order, self.sources = manifest.order, manifest.sources
        self.rows = sum(line["rows"] for line in self.manifest.told)
        self.written = 0
        self.again: set[tuple[int, int]] = set()

    def run(self, engine: Engine, task_rows: int | None, progress: bool | None) -> None:
        """Have all parts filled that are not yet, and write files as they become whole."""
        rows = sum(source.rows for source in self.sources.values())
        with progress_bar("Filling, rows", rows, show=progress) as report:
            for number in self.sources:
                self._write_if_whole(number)
            self._report(report)
            before = -1
            # Of parts that are done there may be some that cannot be read when all are.
            while before < len(self.again):
                before = len(self.again)
                self._do(engine, task_rows, report)

    def _do(self, engine: Engine, task_rows: int | None, report: Progress) -> None:
        left = [own for number, own in self.sources.items() if number not in self.problems]
        for line in engine(self.order, tasks_of(left, self.manifest.has, task_rows)):
            self._take(line)
            self._report(report)

    def done(self, paths: Sequence[Path], passed: dict[str, str]) -> Done:
        """Return what is done; refuse, if that is nothing."""
        written = [s for n, s in self.sources.items() if self.manifest.states[n].whole]
        problems = {paths[number]: words for number, words in sorted(self.problems.items())}
        if not written:
            raise ValueError("\n".join(problems.values()))
        missing: Counter[str] = Counter()
        told = [line for s in written for line in self.manifest.states[s.number].parts.values()]
        for line in told:
            missing.update(line["missing"])
        return Done(
            [place for source in written for place in source.places],
            problems,
            sum(source.rows for source in written),
            dict(missing),
            passed,
            pooled([Found(*line["found"]) for line in told]),
        )

    def _take(self, line: Line) -> None:
        if "stopped" in line:
            raise _STOPPED[line["why"]](line["stopped"])
        self.manifest.add(line)
        if "refused" in line:
            self.problems.setdefault(line["refused"], line["problem"])
        else:
            self.rows += line["rows"]
            self._write_if_whole(line["part"][0])

    def _write_if_whole(self, number: int) -> None:
        source, state = self.sources[number], self.manifest.states[number]
        if self.manifest.complete(number) and not state.whole and self._unchanged(source):
            self.job.place(source.places)
            self._join(source)
        if state.whole:
            remove_parts(self.order, source)
            self.written += 1

    def _join(self, source: Source) -> None:
        """Write a file, or have a part done again that is not what was kept."""
        state = self.manifest.states[source.number]
        try:
            join(self.order, source, state.parts)
        except DamagedError:
            for part in damaged(self.order, source, state.parts):
                self._do_again(source.number, part)
        else:
            self.manifest.add({"whole": source.number})

    def _do_again(self, file: int, part: int) -> None:
        place = self.order.places(file, part)[0]
        if (file, part) in self.again:
            raise WriteError(
                f"{place}: expected what was written there; it was something else, twice. Look at "
                f"the disk, or choose another place, and run the same again"
            )
        self.job.tell(f"{place} is damaged: the part is filled again")
        self.again.add((file, part))
        self.rows -= self.manifest.states[file].parts[part]["rows"]
        self.manifest.forget(file, part)

    def _unchanged(self, source: Source) -> bool:
        """Whether a file is still the one that its parts are of; if not, it is refused."""
        try:
            check_unchanged(source.path, source.stamp)
        except ValueError as problem:
            self._take({"refused": source.number, "problem": str(problem)})
            return False
        return True

    def _report(self, report: Progress) -> None:
        report(self.rows, f"{self.written} of {len(self.sources)} files")


_STOPPED: dict[str, Callable[[str], Exception]] = {
    "disk": WriteError,
    "memory": MemoryError,
    "worker": RayError,
}


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
