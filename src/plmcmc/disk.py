"""Files and directories that are written whole or not at all.

What is written goes to a temporary place beside its own, from there to the disk, and only then
takes its place: whatever stops a process, and be it the power, leaves the old one or the new one.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

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
                _write(staged[path], content)
        for path, temporary in staged.items():
            with failing_in_words(path):
                os.replace(temporary, path)
                _sync_directory(path.parent)
    finally:
        for temporary in staged.values():
            # What has taken its place is not there; where no directory could be made, nothing is.
            with suppress(OSError):
                temporary.unlink()


def write_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a directory of files; an old one is removed once the new one stands."""
    staging = partial_of(path)
    with failing_in_words(path):
        _put_back(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(staging, ignore_errors=True)
        try:
            staging.mkdir()
            for name, content in files.items():
                _write(staging / name, content)
            _sync_directory(staging)
            _swap(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def partial_of(path: Path) -> Path:
    """Return where something is written before it takes its place."""
    return path.with_name(f".{path.name}.partial")


def replaced_of(path: Path) -> Path:
    """Return where a directory is while a new one takes its place."""
    return path.with_name(f".{path.name}.replaced")


def standing(path: Path) -> Path:
    """Return where a directory is: elsewhere, if a process was killed while it replaced it."""
    return replaced_of(path) if not path.exists() and replaced_of(path).exists() else path


def check_directory(directory: Path) -> None:
    """Refuse a directory that is not there and could not be made, or not be written to."""
    there = next(p for p in (directory, *directory.absolute().parents) if p.exists())
    if not there.is_dir():
        raise ValueError(
            f"{there} is a file: expected a directory to write to. Choose another place"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} cannot be written to: choose another directory")


@contextmanager
def failing_in_words(path: Path) -> Iterator[None]:
    """Say what could not be written, why, and what to do."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        full = error.errno in FULL
        advice = "make room there" if full else "choose a place that can be written to"
        raise WriteError(
            f"{path} could not be written ({error.strerror or error}): {advice}, and run the same "
            f"again. Nothing was left half-written"
        ) from error


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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
    if old.exists() and not path.exists():
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
