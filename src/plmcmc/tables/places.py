"""Where filled tables are written, checked before any work."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from plmcmc.disk import check_directory
from plmcmc.tables.claims import Places, is_ours
from plmcmc.tables.reading import form_of, suffix_of

# Bytes of a file's name, on all disks that are in use; and what is added to it for a while.
LONGEST_NAME, LONGEST_ENDING = 255, len("..part.partial")


def places_of(
    paths: Sequence[Path], output: Path, draws: int | None, *, directory: bool = False
) -> list[list[Path]]:
    """Return the files to write for each file that is read.

    Args:
        paths: what is read.
        output: a file; of several, a directory.
        draws: how many are written for each, if not one.
        directory: whether it is one even of a single file.
    """
    check_length(output)
    if len(paths) == 1 and not directory:
        if output.is_dir():
            raise ValueError(
                f"{output} is a directory: expected a file, as there is only one table. Give a "
                "file name"
            )
        if form_of(output) != form_of(paths[0]):
            raise ValueError(
                f"{output}: expected a {form_of(paths[0])} file, like {paths[0]}. Use that suffix"
            )
        return [_numbered(output, draws)]
    names = [path.name for path in paths]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"two files would be written to {output / twice[0]}: rename one of them")
    return [_numbered(output / name, draws) for name in names]


def _numbered(place: Path, draws: int | None) -> list[Path]:
    suffix = suffix_of(place)
    if draws is None:
        return [place]
    stem = place.name.removesuffix(suffix)
    return [place.with_name(f"{stem}-{draw}{suffix}") for draw in range(1, draws + 1)]


def check_free(
    places: Sequence[Path],
    *,
    overwrite: bool,
    ours: Places = MappingProxyType({}),
    data: Sequence[Path] = (),
) -> None:
    """Refuse before the work what could not be written after it.

    Args:
        places: to write to.
        overwrite: files that are there may go.
        ours: these may go in any case: they are this job's own, from before it was stopped.
        data: what is read: it may not go in any case, for what was seen and what was filled in
            could not be told apart any more, and a job that is stopped could not go on.
    """
    originals = {_on_disk(path) for path in data if path.exists()}
    for place in places:
        check_length(place)
        if place.exists() and _on_disk(place) in originals:
            raise FileExistsError(
                f"{place} is one of the input files, which --overwrite does not replace: choose "
                "another name or directory"
            )
        if place.exists() and not overwrite and not is_ours(place, ours):
            raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
        if place.is_dir():
            raise ValueError(f"{place} is a directory: expected a file. Give a file name")
    for directory in {place.parent for place in places}:
        check_directory(directory)


def check_outlasts(places: Sequence[Path], part: Path) -> None:
    """Refuse to write into what is kept of a job: it goes when the job ends."""
    for place in places:
        if part.absolute() in (place.absolute(), *place.absolute().parents):
            raise ValueError(
                f"{place} lies in {part}, which holds the command's progress while it runs: "
                "choose another place"
            )


def _on_disk(path: Path) -> tuple[int, int]:
    """Return what tells a file from all others, by whatever name or link it is called."""
    found = path.stat()
    return found.st_dev, found.st_ino


def check_length(place: Path) -> None:
    """Refuse a name so long that what is kept beside it could not be named after it."""
    size, most = len(os.fsencode(place.name)), LONGEST_NAME - LONGEST_ENDING
    if size > most:
        raise ValueError(
            f"{place}: expected a name of at most {most} bytes; this one has {size}. Choose a "
            f"shorter one"
        )


def leftovers(
    paths: Sequence[Path], output: Path, draws: int | None, *, directory: bool = False
) -> list[Path]:
    """Return tables with higher numbers, of a job with more draws, that stand beside the new."""
    if draws is None:
        return []
    found = []
    for own in places_of(paths, output, 1, directory=directory):
        stem, suffix = own[0].name.removesuffix(f"-1{suffix_of(own[0])}"), suffix_of(own[0])
        number = draws + 1
        while (other := own[0].with_name(f"{stem}-{number}{suffix}")).exists():
            found.append(other)
            number += 1
    return found
