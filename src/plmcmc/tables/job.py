"""What is kept while a command works, so that the same command can go on after it was stopped.

It lies in a directory beside the output (`OUT.part`), or inside it where that is a directory itself
(`OUT/plmcmc.part`):

- `job.json`: what makes this job this job: hashes of what is read, and the options; the first to
  be written: what lies there without it counts for nothing;
- `fit.safetensors`: how far the learning has come;
- `table-0`, `table-1`, ...: tables that are filled, as they will be written, and their hashes;
- `manifest.jsonl`, and `rows-0-0-0.parquet`, ...: of tables filled part by part, a line for every
  part that is done, and the part itself until its table is whole;
- `placing`: files have begun to take their places, and which.

When the job ends, the directory takes another name before it is removed: killed while it goes, the
job has ended all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmcmc.data import DataError
from plmcmc.disk import (
    WriteError,
    failing_in_words,
    locked,
    partial_of,
    tidy,
    write,
    write_directory,
)
from plmcmc.tables.claims import Places, note, noted
from plmcmc.tables.fill import Filled, Found
from plmcmc.tables.kinds import counted
from plmcmc.tables.places import check_length
from plmcmc.training import TrainingError

IDENTITY, FIT, TABLE = "job.json", "fit.safetensors", "table-"
LOCK, CLAIMS, FOUND = "lock", "placing", "found.json"
MANIFEST, ROWS = "manifest.jsonl", "rows-"
# How lines of a manifest begin.
PART, WHOLE = b'{"part"', b'{"whole"'


@dataclass(frozen=True)
class Job:
    """A job at work, and the directory that keeps what it has done."""

    path: Path
    tell: Callable[[str], None] = print

    @property
    def checkpoint(self) -> Path:
        """Where the learning saves itself."""
        return self.path / FIT

    def kept(self) -> list[str]:
        """Return what would not have to be done again, in words."""
        if not (self.path / IDENTITY).exists():
            return []
        tables = sum(entry.name.startswith(TABLE) for entry in self.path.iterdir())
        found = ["the fitting progress"] if self.checkpoint.exists() else []
        found += [counted(tables, "filled table")] if tables else []
        for begin, noun in ((PART, "filled part"), (WHOLE, "written table")):
            # A table without rows is written, and has no parts.
            count = _lines(self.path / MANIFEST, begin)
            if count:
                return [*found, counted(count, noun)]
        return found

    def filled(self, number: int) -> Filled | None:
        """Return a table that is done already, or None: also if it is not what was kept."""
        place = self.path / f"{TABLE}{number}"
        if not place.exists():
            return None
        try:
            described = json.loads((place / FOUND).read_text())
            found, hashes = Found(*described["found"]), list(described["sha256"])
            contents = [(place / str(n)).read_bytes() for n in range(len(hashes))]
        except (OSError, ValueError, LookupError, TypeError):
            hashes, contents, found = [""], [], None
        if found is None or [_hash(own) for own in contents] != hashes:
            self.tell(f"{place} is damaged: filling the table again")
            return None
        return Filled(contents, found)

    def keep(self, number: int, table: Filled) -> None:
        """Keep a table that is done, whole or not at all."""
        files = {str(n): content for n, content in enumerate(table.contents)}
        described = {"found": table.found, "sha256": [_hash(own) for own in table.contents]}
        files[FOUND] = json.dumps(described).encode()
        write_directory(self.path / f"{TABLE}{number}", files)

    def claim(self, places: Mapping[Path, bytes] | Iterable[Path]) -> None:
        """Note which files take their places from now on: what stands there may be this job's.

        Args:
            places: with what each will hold, if it is known: another's file in its place is known
                by that.
        """
        note(self.path / CLAIMS, places)


def part_of(output: Path, *, several: bool) -> Path:
    """Return where a job with this output keeps what it has done.

    Raises:
        ValueError: if the output has no name of its own to call it by, or one that is too long.
    """
    # Here, where names are made of it: a system refuses those that are too long in other words.
    check_length(output)
    if not several and not output.name:
        raise ValueError(
            f"{output} is a directory: expected a file name. Add one, such as {output / 'out'}"
        )
    return output / "plmcmc.part" if several else output.with_name(output.name + ".part")


def claimed_places(path: Path) -> Places:
    """Return the places that files of a stopped job had begun to take; if it had ended, tidy up."""
    shutil.rmtree(partial_of(path), ignore_errors=True)
    return noted(path / CLAIMS) if (path / IDENTITY).exists() else {}


def stopped_at(path: Path) -> dict[str, Any]:
    """Return what makes a job that was stopped that job; nothing, if nothing is kept of one."""
    return _identity_at(path) if Job(path).kept() or claimed_places(path) else {}


def _lines(path: Path, begin: bytes) -> int:
    """Return how many lines of a manifest begin so; none, if there is no manifest."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(line.startswith(begin) for line in file)


@contextmanager
def working(
    path: Path,
    identity: Mapping[str, Any],
    *,
    overwrite: bool,
    tell: Callable[[str], None] = print,
) -> Iterator[Job]:
    """Yield the job, new or begun before; what it keeps goes when it ends, not when it is stopped.

    Args:
        path: where it keeps what it has done.
        identity: what makes it this job.
        overwrite: throw away what another job has left.
        tell: says that it goes on, and what it cannot use.

    Raises:
        FileExistsError: if another job, or another process, is there.
        KeyboardInterrupt: if it was interrupted, saying what is kept.
    """
    _check_ours(path)
    made = [parent for parent in path.parents if not parent.exists()]
    with failing_in_words(path):
        # For its owner alone: it holds the table, whose file may be private.
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    job, stays, refused = Job(path, tell), True, True
    with locked(path / LOCK):
        try:
            before = _begun_before(job, json.loads(json.dumps(identity)), overwrite=overwrite)
            refused = False
            if before:
                words = " and ".join(job.kept()) or "no finished work yet"
                tell(f"Resuming from {path}, which holds {words}.")
            yield job
            stays = False
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_interrupted(job)) from None
        except WriteError as error:
            raise WriteError(_unwritten(job, error)) from error
        except (DataError, TrainingError):
            # The same input will be refused again. Other errors may be ours: mended, it goes on.
            stays = False
            raise
        finally:
            # Another's job that is in the way is not ours to remove.
            keeps = stays and (job.kept() or claimed_places(path))
            if not (keeps or (refused and _identity_at(path))):
                _remove(path, made)


def _check_ours(path: Path) -> None:
    """Refuse a file or directory of that name that holds other things: it is not ours to remove."""
    if not path.exists():
        return
    known = {IDENTITY, FIT, LOCK, CLAIMS, MANIFEST}
    whole = {name for own in known for name in (own, partial_of(path / own).name)}
    names = [entry.name for entry in path.iterdir()] if path.is_dir() else []
    tables = (TABLE, f".{TABLE}", ROWS, f".{ROWS}")
    if not path.is_dir() or any(n not in whole and not n.startswith(tables) for n in names):
        raise FileExistsError(
            f"{path} was not created by plmcmc to hold an unfinished job: move it away, or choose "
            "a different output"
        )


def _begun_before(job: Job, identity: dict[str, Any], *, overwrite: bool) -> bool:
    """Return whether what is there is this job's, to go on from; if not, start with nothing."""
    there, kept, begun = _identity_at(job.path), job.kept(), claimed_places(job.path)
    for place in begun:
        tidy(place)
    if (kept or begun) and there == identity:
        return True
    if (kept or begun) and not overwrite:
        keys = [key for key in {**there, **identity} if there.get(key) != identity.get(key)]
        raise FileExistsError(
            f"{job.path} holds a different job that was interrupted (differences: "
            f"{', '.join(keys)}). Finish it with its own command, choose a different output, or "
            "discard it with --overwrite"
        )
    for entry in job.path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()
    write(job.path / IDENTITY, (json.dumps(identity, indent=2) + "\n").encode())
    return False


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _identity_at(path: Path) -> dict[str, Any]:
    """Return what is written of a job that is there; nothing, if it cannot be read."""
    try:
        return dict(json.loads((path / IDENTITY).read_text()))
    except (ValueError, TypeError, OSError):
        return {}


def _interrupted(job: Job) -> str:
    kept = job.kept()
    if not kept:
        return "interrupted before there was any progress to keep"
    return (
        f"interrupted. {job.path} keeps {' and '.join(kept)}: run the same command again to "
        "resume. To start over, delete it"
    )


def _unwritten(job: Job, error: WriteError) -> str:
    kept = job.kept()
    return f"{error}; {job.path} keeps {' and '.join(kept)}" if kept else str(error)


def _remove(path: Path, made: list[Path]) -> None:
    """Remove what a job has kept, all at once: killed on the way, a job has ended or has not."""
    ended = partial_of(path)
    with suppress(OSError):
        shutil.rmtree(ended, ignore_errors=True)
        os.replace(path, ended)
        shutil.rmtree(ended)
    for parent in made:
        # What has something in it by now stays.
        with suppress(OSError):
            parent.rmdir()
