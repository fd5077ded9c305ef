"""What a command was asked for: its options and where to write, checked before any work."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from plmcmc.cli.tables import form_of, suffix_of


def check_options(arguments: Namespace) -> None:
    """Refuse options that would have no effect."""
    if arguments.draws is not None and arguments.draws < 1:
        raise ValueError(f"--draws must be at least 1; got {arguments.draws}")
    if arguments.draws and arguments.statistic not in (None, "draw"):
        raise ValueError(
            f"--draws writes draws, and --statistic {arguments.statistic} asks for one table: "
            f"leave out one of them"
        )
    for option in ("effort", "types", "exclude"):
        if arguments.model and getattr(arguments, option):
            raise ValueError(
                f"--{option} belongs to fitting, and --model is fitted already: leave it out"
            )


def places_of(paths: Sequence[Path], output: Path, draws: int | None) -> list[list[Path]]:
    """Return the files to write for each file that is read."""
    if len(paths) == 1:
        if output.is_dir():
            raise ValueError(f"{output} is a directory: expected a file for the one table")
        if form_of(output) != form_of(paths[0]):
            raise ValueError(
                f"{output}: expected a {form_of(paths[0])} file, as {paths[0]} is; choose that "
                f"suffix"
            )
        return [_numbered(output, draws)]
    names = [path.name for path in paths]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two files would be written to {output / twice[0]}: rename one")
    return [_numbered(output / name, draws) for name in names]


def _numbered(place: Path, draws: int | None) -> list[Path]:
    suffix = suffix_of(place)
    if draws is None:
        return [place]
    stem = place.name.removesuffix(suffix)
    return [place.with_name(f"{stem}-{draw}{suffix}") for draw in range(1, draws + 1)]


def check_free(places: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse before the work what could not be written after it."""
    for place in places:
        if place.exists() and not overwrite:
            raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
        if place.is_dir():
            raise ValueError(f"{place} is a directory: expected the name of a file")
    for directory in {place.parent for place in places}:
        check_directory(directory)


def check_directory(directory: Path) -> None:
    """Refuse a directory that is not there and could not be made, or not be written to."""
    there = next(p for p in (directory, *directory.absolute().parents) if p.exists())
    if not there.is_dir():
        raise ValueError(f"{there} is a file: expected a directory to write to")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} cannot be written to: choose another directory")
