"""What loading spoilt files comes to: it may end well or be refused by name, and nothing else.

Of models and checkpoints the name is a `FileError`; of tables, a message that names the file.

Used by `test_fuzzed_files.py` for a few hundred, and by `benchmarks/fuzz_files.py` for as many as
one likes.
"""

import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from plmcmc.flows import FileError, load
from plmcmc.imputation import FlowImputer
from spoilt_files import KINDS, Case, Run, Whole, packed, spoilt
from spoilt_tables import read_and_written, spoilt_table, whole_tables

# A load of these small files takes some milliseconds.
LIMIT_S = 10.0
# What may come of a case; of the last, that it fills a row is not known.
FINE = ("loaded", "refused", "loaded, not filled")


class Outcome(NamedTuple):
    """What loading a spoilt file came to: one of `FINE`, or what must not happen."""

    name: str
    words: str
    seconds: float


class Hung(BaseException):
    """A load that takes longer than it may."""


class Findings(NamedTuple):
    """How many cases came to what, those that must not be, and the longest load in seconds."""

    counts: dict[str, Counter]
    wrong: list[tuple[Case, Outcome]]
    slowest: float


def written(files: dict[str, bytes] | bytes, place: Path) -> Path:
    """Write a case's files: an archive, a checkpoint, or a directory."""
    if isinstance(files, bytes) or "checkpoint" in files:
        place.write_bytes(files if isinstance(files, bytes) else files["checkpoint"])
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


def _loader(kind: str, place: Path) -> Callable[[], object]:
    if kind == "checkpoint":
        return Run(place).load
    if kind.startswith("imputer"):
        return lambda: _imputed(FlowImputer.load(place))
    return lambda: load(place)


def _imputed(imputer: FlowImputer) -> str:
    """Fill a row of which nothing is known, if what was loaded does not ask for too long a walk."""
    effort = imputer.effort_
    if effort.chains > 8 or effort.burn_in + effort.states > 100:
        return "loaded, not filled"
    names = imputer.layout_.names
    row = pd.DataFrame([[None] * len(names)], columns=pd.Index(names, dtype=object), dtype=object)
    with warnings.catch_warnings():
        # Of the few steps that these models take.
        warnings.simplefilter("ignore")
        found = imputer.transform(row)
    if found.isna().any(axis=None):
        raise ArithmeticError("a hole is left")
    return "loaded"


def _by_file_error(error: Exception) -> bool:
    return isinstance(error, FileError)


def outcome(
    loader: Callable[[], object],
    limit: float = LIMIT_S,
    refuses: Callable[[Exception], bool] = _by_file_error,
) -> Outcome:
    """Load, and return what came of it; `refuses` tells refusals from errors.

    A loader may return which of `FINE` it was.
    """
    began = time.perf_counter()
    try:
        with _timed(limit), forbidden_watched() as seen:
            try:
                found = loader()
                name, words = found if isinstance(found, str) else "loaded", ""
            except Exception as error:
                if not refuses(error):
                    raise
                name, words = "refused", str(error)
                if isinstance(error.__cause__, MemoryError) or "allocate memory" in words:
                    name = "too much memory"
    except Hung:
        name, words = "hung", ""
    except BaseException as error:
        name, words = "crashed", f"{type(error).__name__}: {error}"
    if seen:
        name, words = "did what it may not", ", ".join(sorted(seen)[:5])
    return Outcome(name, words, time.perf_counter() - began)


@contextmanager
def _timed(limit: float):
    def ring(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_WATCHED: list[set[str] | None] = [None]
FORBIDDEN = ("exec", "compile", "import", "marshal", "pickle", "os.system", "os.exec", "os.spawn")
FORBIDDEN += ("os.posix_spawn", "subprocess", "socket", "ctypes", "os.remove", "os.rename")
FORBIDDEN += ("os.mkdir", "os.symlink", "os.link", "os.chmod", "shutil", "urllib", "webbrowser")
_installed = []


def _audit(event: str, arguments: tuple) -> None:
    seen = _WATCHED[0]
    if seen is None:
        return
    if event.startswith(FORBIDDEN):
        seen.add(f"{event} {arguments[0] if arguments else ''!s:.60}")
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.add(f"open to write {arguments[0]}")


@contextmanager
def forbidden_watched():
    """Note what a loader may not do: run code, import, connect, write."""
    if not _installed:
        # Python keeps a hook for good: it looks away between cases.
        sys.addaudithook(_audit)
        _installed.append(True)
    seen: set[str] = set()
    _WATCHED[0] = seen
    try:
        yield seen
    finally:
        _WATCHED[0] = None


def campaign(cases: Iterable[Case], whole: Whole, folder: Path) -> Findings:
    """Judge cases, once everything that loading imports is there."""
    for kind in KINDS:
        for files in whole.of(kind):
            _loader(
                kind, written(packed(files) if kind.endswith("zip") else files, folder / kind)
            )()
    # zipfile decodes old names by it.
    "".encode("cp437")
    return _judged(
        cases,
        lambda case: outcome(_loader(case.kind, written(spoilt(case, whole), folder / case.kind))),
    )


def table_campaign(cases: Iterable[Case], folder: Path) -> Findings:
    """Judge tables, which are read, filled and written."""
    whole = whole_tables()
    for kind, files in whole.items():
        for content in files:
            read_and_written(written(content, folder / kind))

    def judge(case: Case) -> Outcome:
        place = written(spoilt_table(case, whole), folder / case.kind)

        def named(error: Exception) -> bool:
            return isinstance(error, ValueError | OSError) and str(error).startswith(str(place))

        return outcome(lambda: read_and_written(place), refuses=named)

    return _judged(cases, judge)


def _judged(cases: Iterable[Case], judge: Callable[[Case], Outcome]) -> Findings:
    counts: dict[str, Counter] = {}
    wrong, slowest = [], 0.0
    for case in cases:
        found = judge(case)
        counts.setdefault(case.kind, Counter())[found.name] += 1
        slowest = max(slowest, found.seconds)
        if found.name not in FINE:
            wrong.append((case, found))
    return Findings(counts, wrong, slowest)
