"""What is to be done: files, the parts that they are cut into, and what is asked of every worker.

A part is `PART_ROWS` rows of one file, always cut at the same places, with a seed of its own. What
it is filled with depends neither on who does it nor on what else is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from plmcmc.rng import part_count, parts_of
from plmcmc.tables.job import ROWS

# Tasks that are handed out, about, at most, beside one for each file: each has more parts then.
MOST_TASKS = 20_000


Stamp = Sequence[int]
"""A file's size in bytes, and when it was last written, in nanoseconds."""


class Source(NamedTuple):
    """A file to fill.

    Attributes:
        number: which file it is, which its seeds depend on.
        path: where it is.
        digest: a hash of it.
        rows: how many it has.
        places: where to write it, once for each draw.
        stamp: what tells that it has changed since it was looked at.
    """

    number: int
    path: Path
    digest: str
    rows: int
    places: list[Path]
    stamp: Stamp

    @property
    def parts(self) -> list[slice]:
        """Its rows, part by part."""
        return parts_of(self.rows)

    @property
    def part_count(self) -> int:
        """How many parts it has: asked after each, so they are not listed for it."""
        return part_count(self.rows)


class Task(NamedTuple):
    """Some parts of one file, for one worker to fill, one after the other.

    Attributes:
        file: its number.
        path: where it is.
        parts: `(number, start, stop)` of each.
        stamp: the file's, when it was looked at.
    """

    file: int
    path: str
    parts: list[tuple[int, int, int]]
    stamp: Stamp


@dataclass(frozen=True)
class Order:
    """What is asked of every worker.

    Attributes:
        model: where it is saved.
        kept: the directory for parts that are done.
        draws: how many tables of draws to write, if not one table of a statistic.
        statistic: what to fill in; None for the model's.
        seed: None for the model's.
        flag: the name of a column to add.
        na_values: words that mark a hole.
        device: where to work.
    """

    model: Path
    kept: Path
    draws: int | None
    statistic: str | None
    seed: int | None
    flag: str | None
    na_values: tuple[str, ...]
    device: str

    def places(self, file: int, part: int) -> list[Path]:
        """Return where a part is kept until its file is whole, once for each draw."""
        return [
            self.kept / f"{ROWS}{file}-{part}-{draw}.parquet" for draw in range(self.draws or 1)
        ]


Line = dict[str, Any]
"""What a worker tells of a part, as it stands in the manifest; or that it had to stop."""
Engine = Callable[[Order, Sequence[Task]], Iterator[Line]]
"""Has tasks done, and yields what is told of them, in any order."""


def stamp_of(path: Path) -> Stamp:
    """Return what tells that a file has changed, without reading it."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def check_unchanged(path: Path, stamp: Stamp) -> None:
    """Refuse a file that was replaced at work: parts of two contents do not make one file.

    Raises:
        ValueError: if it has changed, or is gone.
    """
    try:
        now = stamp_of(path)
    except OSError as error:
        raise ValueError(
            f"{path}: expected the file to exist until it is filled; it is gone "
            f"({error.strerror}). Put it back, and run the same again"
        ) from None
    # One that has gone to a worker and back as JSON is a list.
    if list(now) != list(stamp):
        raise ValueError(
            f"{path}: expected the file not to change until it is filled; it was changed "
            f"meanwhile, from {stamp[0]} bytes to {now[0]}, or rewritten. Let nothing write to "
            "it, and run the same again"
        )


def tasks_of(sources: Sequence[Source], done: Callable[[int, int], bool]) -> list[Task]:
    """Return what is left to do: of many rows, tasks have several parts each.

    Args:
        sources: the files.
        done: whether a part of a file is.
    """
    left = [(source, _left(source, done)) for source in sources]
    every = sum(len(parts) for _, parts in left)
    size = max(1, -(-every // MOST_TASKS))
    return [
        # Workers may stand in other directories.
        Task(source.number, str(source.path.absolute()), parts[first : first + size], source.stamp)
        for source, parts in left
        for first in range(0, len(parts), size)
    ]


def _left(source: Source, done: Callable[[int, int], bool]) -> list[tuple[int, int, int]]:
    numbered = enumerate(source.parts)
    return [(n, part.start, part.stop) for n, part in numbered if not done(source.number, n)]
