"""What an experiment is: parts that are run one by one and kept, and a report of those there are.

A part is one replication: it depends on nothing but its name and the settings, so that runs add up.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from plmcmc.data import DataError

# Of a field that parts depend on each in their own way, which `settings_of` tells.
BY_PART = {"more": True}


class Found(NamedTuple):
    """What one part has found.

    Attributes:
        numbers: as JSON has them.
        arrays: larger things: curves, pictures.
    """

    numbers: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = {}  # noqa: RUF012


@dataclass(frozen=True)
class Place:
    """Where an experiment reads, works and writes.

    Attributes:
        output: directory of this experiment.
        shared: directory of what experiments share: trained flows.
        data: directory of data sets, if one was given.
        device: where to compute.
        progress: show bars; None does on a terminal.
        note: told of every file that is read, and by what name it is known; refuses one that has
            changed since.
    """

    output: Path
    shared: Path
    data: Path | None = None
    device: str = "cpu"
    progress: bool | None = None
    note: Callable[[Path, str], None] = lambda path, name: None

    def checkpoint(self, part: str) -> Path:
        """Return where a part may save itself on its way; it goes once its numbers are kept."""
        return self.output / f"{file_name(part)}.checkpoint"

    def begins(self, part: str) -> bool:
        """Return whether a part begins anew: one that goes on cannot tell how long it took."""
        return not self.checkpoint(part).exists()

    def find(self, *names: str) -> Path:
        """Return the first of some files that is there, relative to the directory of data.

        Raises:
            DataError: if none is.
        """
        return self.find_all([names])[0]

    def find_all(self, files: Sequence[Sequence[str]]) -> list[Path]:
        """Return where files are, each of which may have several names.

        Raises:
            DataError: naming all that are not there.
        """
        found = [self.there(names) for names in files]
        lacking = [names for names, path in zip(files, found, strict=True) if path is None]
        if lacking:
            raise DataError(self._without(lacking))
        there = [path for path in found if path is not None]
        for names, path in zip(files, there, strict=True):
            # By the first of its names: two files of one name may lie in two folders.
            self.note(path, names[0])
        return there

    def there(self, names: Sequence[str]) -> Path | None:
        """Return the first of some files that is there, if one is."""
        places = [] if self.data is None else [self.data / name for name in names]
        return next((path for path in places if path.exists()), None)

    def _without(self, lacking: Sequence[Sequence[str]]) -> str:
        """Return what to do about files that are not there."""
        one = len(lacking) == 1
        if self.data is None:
            first = ", ".join(names[0] for names in lacking)
            return (
                f"this scale reads {first}: pass --data with a directory that contains "
                f"{'it' if one else 'them'}, or choose --scale smoke, which needs no data"
            )
        if not self.data.is_dir():
            kind = "a file" if self.data.exists() else "nothing"
            return f"expected a directory of data at {self.data} (--data); found {kind} there"
        # Of more than two names, the documentation has the others.
        shown = (" or ".join(names if len(names) == 2 else names[:1]) for names in lacking)
        found = "none of them"
        if one:
            found = "neither" if len(lacking[0]) == 2 else "nothing of that name"
        return (
            f"expected {', '.join(shown)} in {self.data}; found {found} (docs/reproduce.md says "
            "where to get them)"
        )


@dataclass(frozen=True)
class Experiment(ABC):
    """One table or figure of the paper; fields are its settings.

    Fields marked `more()` say how much is done: numbers stay true when they change.
    """

    # Where the paper contradicts itself or is silent, and how it is read here.
    readings: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def parts(self) -> Sequence[str]:
        """Return the names of all parts, in the order to run them."""

    @abstractmethod
    def run(self, part: str, place: Place) -> Found:
        """Run one part."""

    @abstractmethod
    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return tables as Markdown, of the parts that are there; write figures beside them."""

    def needs(self, part: str) -> str:
        """Return the package that a part cannot be run without, beyond plmcmc's own; or nothing."""
        del part
        return ""

    def settings_of(self, part: str) -> dict[str, Any]:
        """Return what the numbers of one part depend on, beyond `settings`."""
        del part
        return {}

    def settings(self) -> dict[str, Any]:
        """Return what all numbers depend on."""
        counts = {f.name for f in self.__dataclass_fields__.values() if f.metadata.get("more")}
        return {name: own for name, own in asdict(self).items() if name not in counts}


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Yield numbers, of which the seconds that this took are noted in the end.

    Without warnings: whether chains have converged is told in numbers.
    """
    taken: dict[str, float] = {}
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield taken
    taken["seconds"] = round(time.perf_counter() - began, 1)


def file_name(part: str) -> str:
    """Return the name of a part as files have it."""
    return part.replace(", ", "-").replace(" ", "-")


def more(default: Any) -> Any:
    """Return a field that says how many parts there are, which others do not depend on."""
    return field(default=default, metadata={"more": True})
