"""Which number each file has, which its seeds hang on.

It is that among DATA; but a job that was stopped may go on with fewer of its files, one of which
may be damaged for good: those that are left keep their numbers. To overwrite is to begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plmcmc.tables.job import stopped_at


class Numbered(NamedTuple):
    """Files by their numbers.

    Attributes:
        names: of all files of the job, in their order.
        paths: of those to fill, by number.
    """

    names: list[str]
    paths: dict[int, Path]

    @property
    def left_out(self) -> dict[int, str]:
        """Names of the others, by number."""
        return {n: name for n, name in enumerate(self.names) if n not in self.paths}


def numbered(
    paths: Sequence[Path], part: Path, identity: Mapping[str, Any], *, overwrite: bool = False
) -> Numbered:
    """Return the files by their numbers.

    Args:
        paths: the files to fill.
        part: where a job that was stopped would be.
        identity: what makes this job this job, its files' names as `data`.
        overwrite: a stopped job of more files is thrown away, and its numbers with it.
    """
    names, there = list(identity["data"]), stopped_at(part)
    same = {**there, "data": names} == identity
    if same and not overwrite and _some_of(names, there.get("data", ())):
        names = there["data"]
    number = {name: n for n, name in enumerate(names)}
    return Numbered(names, {number[path.name]: path for path in paths})


def _some_of(names: Sequence[str], others: Sequence[str]) -> bool:
    """Whether names are some of others, in the same order."""
    left = iter(others)
    return all(name in left for name in names)
