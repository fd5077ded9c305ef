"""What is kept while a command works, so that the same command can go on after it was stopped.

It lies in a directory beside the output (`OUT.part`), or inside it where that is a directory itself
(`OUT/plmcmc.part`):

- `job.json`: what makes this job this job: hashes of what is read, and the options; the first to
  be written: what lies there without it counts for nothing;
- `fit.safetensors`: how far the learning has come;
- `table-0`, `table-1`, ...: tables that are filled, as they will be written;
- `placing`: files have begun to take their places.

When the job ends, the directory takes another name before it is removed: killed while it goes, the
job has ended all the same.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from plmcmc.chains import CheckpointError
from plmcmc.cli.say import say
from plmcmc.disk import WriteError, failing_in_words, partial_of, write, write_directory

IDENTITY, FIT, TABLE = "job.json", "fit.safetensors", "table-"
LOCK, PLACING, FOUND = "lock", "placing", "found.json"


class Found(NamedTuple):
    """How the chains of a table converged.

    Attributes:
        rows: how many have holes.
        settled: how many of them have all of their holes converged; None where nobody can tell.
        holes: how many there are.
        share: of the holes, how many have converged; None where nobody can tell.
        stuck: how many rows have a chain that never moved.
    """

    rows: int
    settled: int | None
    holes: int
    share: float | None
    stuck: int = 0


class Filled(NamedTuple):
    """A table that is done.

    Attributes:
        contents: of the files to write.
        found: how its chains converged.
    """

    contents: list[bytes]
    found: Found


@dataclass(frozen=True)
class Job:
    """A job at work, and the directory that keeps what it has done."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """Where the learning saves itself."""
        return self.path / FIT

    def kept(self) -> list[str]:
        """Return what would not have to be done again, in words."""
        if not (self.path / IDENTITY).exists():
            return []
        tables = sum(entry.name.startswith(TABLE) for entry in self.path.iterdir())
        found = ["what was learned so far"] if self.checkpoint.exists() else []
        words = "1 filled table" if tables == 1 else f"{tables} filled tables"
        return [*found, words] if tables else found

    def filled(self, number: int) -> Filled | None:
        """Return a table that is done already, or None."""
        place = self.path / f"{TABLE}{number}"
        if not place.exists():
            return None
        described = json.loads((place / FOUND).read_text())
        contents = [(place / str(n)).read_bytes() for n in range(described["files"])]
        return Filled(contents, Found(*described["found"]))

    def keep(self, number: int, table: Filled) -> None:
        """Keep a table that is done, whole or not at all."""
        files = {str(n): content for n, content in enumerate(table.contents)}
        described = {"files": len(table.contents), "found": table.found}
        files[FOUND] = json.dumps(described).encode()
        write_directory(self.path / f"{TABLE}{number}", files)

    def place(self) -> None:
        """Note that from now on files take their places: what stands there may be this job's."""
        write(self.path / PLACING, b"")


def part_of(output: Path, *, several: bool) -> Path:
    """Return where a job with this output keeps what it has done."""
    return output / "plmcmc.part" if several else output.with_name(output.name + ".part")


def is_placing(path: Path) -> bool:
    """Whether a job was stopped while its files took their places; if one had ended, tidy up."""
    shutil.rmtree(partial_of(path), ignore_errors=True)
    return (path / PLACING).exists() and (path / IDENTITY).exists()


@contextmanager
def working(path: Path, identity: Mapping[str, Any], *, overwrite: bool) -> Iterator[Job]:
    """Yield the job, new or begun before; what it keeps goes when it ends, not when it is stopped.

    Args:
        path: where it keeps what it has done.
        identity: what makes it this job.
        overwrite: throw away what another job has left.

    Raises:
        FileExistsError: if another job, or another process, is there.
        KeyboardInterrupt: if it was interrupted, saying what is kept.
    """
    _check_ours(path)
    made = [parent for parent in path.parents if not parent.exists()]
    with failing_in_words(path):
        path.mkdir(parents=True, exist_ok=True)
    job, stays = Job(path), True
    with _locked(path):
        try:
            _begin(job, json.loads(json.dumps(identity)), overwrite=overwrite)
            yield job
            stays = False
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_interrupted(job)) from None
        except WriteError as error:
            raise WriteError(_unwritten(job, error)) from error
        except CheckpointError:
            raise
        except ValueError:
            # The same input will be refused again.
            stays = False
            raise
        finally:
            if not (stays and job.kept()):
                _remove(path, made)


def _check_ours(path: Path) -> None:
    """Refuse a file or directory of that name that holds other things: it is not ours to remove."""
    if not path.exists():
        return
    known = {IDENTITY, FIT, LOCK, PLACING}
    whole = {name for own in known for name in (own, partial_of(path / own).name)}
    names = [entry.name for entry in path.iterdir()] if path.is_dir() else []
    tables = (TABLE, f".{TABLE}")
    if not path.is_dir() or any(n not in whole and not n.startswith(tables) for n in names):
        raise FileExistsError(
            f"{path} is not what plmcmc keeps of a job: move it away, or choose another output"
        )


def _begin(job: Job, identity: dict[str, Any], *, overwrite: bool) -> None:
    """Go on with what is there if it is this job's; else start with nothing."""
    there, kept, placing = _identity_at(job.path), job.kept(), is_placing(job.path)
    if (kept or placing) and there == identity:
        words = " and ".join(kept) or "nothing that need not be done again"
        say(f"Going on from {job.path}, which keeps {words}.")
        return
    if (kept or placing) and not overwrite:
        keys = [key for key in {**there, **identity} if there.get(key) != identity.get(key)]
        raise FileExistsError(
            f"{job.path} holds another job that was stopped (what differs: {', '.join(keys)}). "
            f"Finish it by its own command, choose another output, or throw it away with "
            f"--overwrite"
        )
    for entry in job.path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()
    write(job.path / IDENTITY, (json.dumps(identity, indent=2) + "\n").encode())


def _identity_at(path: Path) -> dict[str, Any]:
    """Return what is written of a job that is there; nothing, if it cannot be read."""
    try:
        return dict(json.loads((path / IDENTITY).read_text()))
    except (ValueError, TypeError, OSError):
        return {}


def _interrupted(job: Job) -> str:
    kept = job.kept()
    if not kept:
        return "interrupted, before there was anything to keep"
    return (
        f"interrupted. {job.path} keeps {' and '.join(kept)}: the same command goes on from there. "
        f"To start over, delete it"
    )


def _unwritten(job: Job, error: WriteError) -> str:
    kept = job.kept()
    return f"{error}; {job.path} keeps {' and '.join(kept)}" if kept else str(error)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time work here; the lock of one that was killed is gone."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with (path / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError(
                f"{path} is in use by another process: wait for it, or choose another output"
            ) from None
        yield


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
