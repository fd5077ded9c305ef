"""Files and directories that are written whole or not at all.

What is written goes to a temporary place beside its own, from there to the disk, and only then
takes its place: whatever stops a process, and be it the power, leaves the old one or the new one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class WriteError(OSError):
    """Something could not be written; what stood in its place before still does."""


def write(path: Path, content: bytes) -> None:
    """Write a file."""
    write_all({path: content})


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write files, none of which takes its place before all are on the disk."""
    staged = {path: partial_of(path) for path in files}
    try:
        for path, content in files.items():
            with failing_in_words(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(staged[path], content, path)
        for path, temporary in staged.items():
            with failing_in_words(path):
                os.replace(temporary, path)
                _sync_directory(path.parent)
    finally:
        for temporary in staged.values():
            # What has taken its place is not there; where no directory could be made, nothing is.
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to, which takes its place once all is in it."""
    temporary = partial_of(path)
    try:
        with failing_in_words(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _fresh(temporary, path) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            _sync_directory(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def append(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Append to a file, all or nothing; made if it is not there.

    Args:
        path: of the file.
        content: what to append.
        sync: wait for the disk.
    """
    with failing_in_words(path), path.open("ab") as file:
        before = file.tell()
        try:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        except OSError:
            os.truncate(path, before)
            raise


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file that was appended to; one that was cut short is cut off."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    return whole.splitlines()


def write_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a directory of files; an old one is removed once the new one stands."""
    staging = partial_of(path)
    with failing_in_words(path):
        _put_back(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(staging)
        try:
            staging.mkdir(mode=0o700 if path.exists() else 0o777)
            for name, content in files.items():
                _write(staging / name, content, path / name)
            if path.exists():
                staging.chmod(stat.S_IMODE(path.stat().st_mode))
            _sync_directory(staging)
            _swap(staging, path)
        finally:
            # What stands in for a directory does so beside what was to replace it.
            if standing(path) == path:
                shutil.rmtree(staging, ignore_errors=True)


def tidy(path: Path) -> None:
    """Remove what a killed process had not yet put in its place; what it had moved comes back."""
    with suppress(OSError):
        _put_back(path)
        _remove(partial_of(path))


def partial_of(path: Path) -> Path:
    """Return where something is written before it takes its place."""
    return path.with_name(f".{path.name}.partial")


def replaced_of(path: Path) -> Path:
    """Return where a directory is while a new one takes its place."""
    return path.with_name(f".{path.name}.replaced")


def standing(path: Path) -> Path:
    """Return where a directory is: elsewhere, if a process was killed while it replaced it.

    Then what was to replace it lies there, too. An old one alone was replaced, and the new one
    deleted since: it must not come back.
    """
    killed = not path.exists() and replaced_of(path).exists() and partial_of(path).exists()
    return replaced_of(path) if killed else path


def check_directory(directory: Path) -> None:
    """Refuse a directory that is not there and could not be made, or not be written to."""
    there = next(p for p in (directory, *directory.absolute().parents) if p.exists())
    if not there.is_dir():
        raise ValueError(
            f"{there} is a file: expected a directory to write to. Choose another place"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} is not writable: choose another directory")


@contextmanager
def failing_in_words(path: Path) -> Iterator[None]:
    """Say what could not be written, why, and what to do."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        raise WriteError(
            f"{in_words(error, path)}, and run the same again. No partial output was left behind"
        ) from error


def in_words(error: OSError, path: object, *, reading: bool = False) -> str:
    """Return what the system could not do, why, and what to do about it."""
    done, to_do = ("read or written", "used") if reading else ("written", "written to")
    full = error.errno in FULL
    advice = "make room there" if full else f"choose a place that can be {to_do}"
    return f"{path} could not be {done} ({error.strerror or error}): {advice}"


@contextmanager
def locked(file: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Let one process at a time hold a file, and work in its directory.

    The lock of a process that was killed is gone with it.

    Args:
        file: to hold; made if it is not there.
        waiting: wait until another process lets go of it, and call this first.

    Raises:
        FileExistsError: if another process holds it, and nobody wants to wait.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with file.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                raise FileExistsError(
                    f"{file.parent} is in use by another process: wait for it, or choose another "
                    f"output"
                ) from None
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes_of(path: Path) -> list[str]:
    """Return hashes of the files of a directory, or of a file, wherever it stands."""
    place = standing(path)
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    return [hash_of(own) for own in files if own.is_file()]


def _fresh(temporary: Path, path: Path) -> BinaryIO:
    """Open a new file that no more people may read than the one whose place it will take."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() else None
    # A killed process may have left one, and a stranger a link to a file of somebody's: both go,
    # and what comes between is not followed, as a file that must be new follows no link.
    temporary.unlink(missing_ok=True)
    permitted = 0o666 if mode is None else 0o600
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permitted)
    file = os.fdopen(handle, "wb")
    if mode is not None:
        temporary.chmod(mode)
    return file


def _write(temporary: Path, content: bytes, path: Path) -> None:
    with _fresh(temporary, path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    """Remove a file, a link (not what it leads to) or a directory, as far as that goes."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _sync_directory(directory: Path) -> None:
    """Have the disk know the names of what is in a directory."""
    if os.name == "nt":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_back(path: Path) -> None:
    """Bring back what a killed process had moved out of the way, and remove what it left."""
    old = replaced_of(path)
    if standing(path) == old:
        os.replace(old, path)
    shutil.rmtree(old, ignore_errors=True)


def _swap(staging: Path, path: Path) -> None:
    """Put `staging` where `path` is."""
    old = replaced_of(path)
    if path.exists():
        os.replace(path, old)
    try:
        os.replace(staging, path)
    except BaseException:
        if old.exists():
            os.replace(old, path)
        raise
    _sync_directory(path.parent)
    shutil.rmtree(old, ignore_errors=True)
