"""A job on its way: parts as workers tell of them, files as they become whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plmcmc.chains import Progress, progress_bar
from plmcmc.data import DataError
from plmcmc.disk import WriteError
from plmcmc.distributed.joining import DamagedError, damaged, join, remove_parts
from plmcmc.distributed.manifest import Manifest
from plmcmc.distributed.on_ray import RayError
from plmcmc.distributed.work_plan import Engine, Line, Source, check_unchanged, tasks_of
from plmcmc.imputation import FlowImputer
from plmcmc.tables.fill import Found, pooled
from plmcmc.tables.job import Job, claimed_places
from plmcmc.tables.kinds import listed


@dataclass(frozen=True)
class Done:
    """The result of filling files.

    Attributes:
        written: the files written.
        problems: what is wrong with files that could not be filled, by path.
        rows: number of rows of all written files.
        kinds: kinds of the columns that the model fills.
        missing: number of missing cells by column, including columns that are not filled.
        passed: columns that were left unchanged, and why.
        found: convergence of the chains.
    """

    written: list[Path]
    problems: dict[Path, str]
    rows: int
    kinds: dict[str, str]
    missing: dict[str, int]
    passed: dict[str, str]
    found: Found


class JobRun:
    """A job on its way: what is done, and which files are written."""

    def __init__(self, job: Job, manifest: Manifest, problems: dict[int, str]) -> None:
        self.job, self.manifest, self.problems = job, manifest, problems
        self.order, self.sources = manifest.order, manifest.sources
        self.rows = sum(line["rows"] for line in self.manifest.told)
        self.written = 0
        self.again: set[tuple[int, int]] = set()
        # Files that will be refused again, as long as they are what they are.
        self.lasting: set[int] = set()

    def run(self, engine: Engine, progress: bool | None) -> None:
        """Have all parts filled that are not yet, and write files as they become whole."""
        for place in self.manifest.spoiled:
            self.job.tell(f"{place} has changed since it was written: filling the file again")
        rows = sum(source.rows for source in self.sources.values())
        with progress_bar("Filling rows", rows, show=progress) as report:
            for number in self.sources:
                self._write_if_whole(number)
            self._report(report)
            before = -1
            # Of parts that are done there may be some that cannot be read when all are.
            while before < len(self.again):
                before = len(self.again)
                self._do(engine, report)

    def _do(self, engine: Engine, report: Progress) -> None:
        left = [own for number, own in self.sources.items() if number not in self.problems]
        for line in engine(self.order, tasks_of(left, self.manifest.has)):
            self._take(line)
            self._report(report)

    def waits_for(self, left_out: Mapping[int, str]) -> bool:
        """Whether files that were left out have parts that would be lost; if so, tell of it."""
        waiting = [name for number, name in left_out.items() if self.manifest.begun(number)]
        if waiting:
            self.job.tell(
                f"{self.job.path} still holds finished parts of files not named this time: "
                f"{listed(waiting)}. Name them again to finish them, or delete it"
            )
        return bool(waiting)

    def tell_of_old(self, places: Mapping[int, Sequence[Path]]) -> None:
        """Tell of outputs in the places of files that are not filled: they look as if they were.

        Args:
            places: of all files of the job, by number.
        """
        for number, own in places.items():
            open_still = number in self.problems or number not in self.sources
            if open_still and not self.manifest.stands(number, own):
                for place in own:
                    if place.exists():
                        self.job.tell(f"{place} is from an earlier run; this job did not write it")

    def done(self, paths: Mapping[int, Path], passed: dict[str, str], imputer: FlowImputer) -> Done:
        """Return what is done; refuse, if that is nothing."""
        written = [s for n, s in self.sources.items() if self.manifest.states[n].whole]
        problems = {paths[number]: words for number, words in sorted(self.problems.items())}
        if not written:
            raise self._nothing_done("\n".join(problems.values()))
        missing: Counter[str] = Counter()
        told = [line for s in written for line in self.manifest.states[s.number].parts.values()]
        for line in told:
            missing.update(line["missing"])
        return Done(
            [place for source in written for place in source.places],
            problems,
            sum(source.rows for source in written),
            dict(zip(imputer.layout_.names, imputer.layout_.kinds, strict=True)),
            dict(missing),
            passed,
            pooled([Found(*line["found"]) for line in told]),
        )

    def _nothing_done(self, words: str) -> ValueError:
        """Return what to raise: an error of the data lets go of what is kept."""
        begun = {
            number
            for number, state in self.manifest.states.items()
            # Of files that were left out, those that were refused do not count.
            if state.parts and (number in self.problems or not state.refused)
        }
        if begun <= self.lasting and not claimed_places(self.job.path):
            return DataError(words)
        return ValueError(
            f"{words}\n{self.job.path} keeps the finished work: once the problem is fixed, run "
            "the same command again to resume. To use other options, pass --overwrite, which "
            "discards it"
        )

    def _take(self, line: Line) -> None:
        if "stopped" in line:
            raise _STOPPED[line["why"]](line["stopped"])
        self.manifest.add(line)
        if "refused" in line:
            self.problems.setdefault(line["refused"], line["problem"])
            if line.get("lasting"):
                self.lasting.add(line["refused"])
        else:
            self.rows += line["rows"]
            self._write_if_whole(line["part"][0])

    def _write_if_whole(self, number: int) -> None:
        source, state = self.sources[number], self.manifest.states[number]
        if self.manifest.complete(number) and not state.whole and self._unchanged(source):
            self.job.claim(source.places)
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
            self.manifest.finish(source.number)

    def _do_again(self, file: int, part: int) -> None:
        place = self.order.places(file, part)[0]
        if (file, part) in self.again:
            raise WriteError(
                f"{place}: expected the data that were written there; twice, they were different. "
                "Check the disk, or choose another place, and run the same again"
            )
        self.job.tell(f"{place} is damaged: filling the part again")
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
