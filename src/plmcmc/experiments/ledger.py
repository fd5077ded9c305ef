"""What is kept of an experiment: a line for every finished part, and its arrays beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from plmcmc.disk import append, check_directory, hash_of, whole_lines, write
from plmcmc.experiments.cache import read_arrays, write_arrays
from plmcmc.experiments.study import Found

LINES, ARRAYS = "numbers.jsonl", "arrays"
# What lines have. Those of earlier versions know not how they were made.
FIRST, PART = {"settings": dict}, {"part": str, "numbers": dict}
MORE = {"settings": dict, "sources": dict, "arrays": str, "made": dict}
# Letters of a hash that are kept.
HASH = 16


class LedgerError(ValueError):
    """What is there cannot be gone on with."""


class Ledger(Mapping[str, Found]):
    """Parts that are done, in a directory that is theirs.

    Args:
        directory: where they are; made if it is not there.
        settings: what all numbers depend on. Those of other settings are refused.
        settings_of: what the numbers of one part depend on, too. Of other ones, it is not done.
        made: tells what a part is made with, at its end.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Any],
        settings_of: Callable[[str], Mapping[str, Any]] = lambda part: {},
        made: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.directory = directory
        self._settings_of = lambda part: as_json(settings_of(part))
        self._made = made
        # A line for every part that is done, and the parts whose arrays are lost or damaged.
        self._done: dict[str, dict[str, Any]] = {}
        self.lost: list[str] = []
        # Hashes of files by name: those that parts were made of, and those read in this process.
        self._sources: dict[str, str] = {}
        self._noted: dict[str, str] = {}
        self._checked: set[Path] = set()
        check_directory(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / LINES
        self._settings = as_json(settings)
        if not self._path.exists() or not self._read(self._settings):
            self._append({"settings": self._settings})

    def _read(self, wanted: dict[str, Any]) -> bool:
        """Read all lines; return whether there were any."""
        # Where somebody was stopped while writing a line, that part is run again.
        texts = whole_lines(self._path)
        lines = [self._line(number, text) for number, text in enumerate(texts, 1)]
        if not lines:
            return False
        there = lines[0]["settings"]
        if there != wanted:
            raise LedgerError(
                f"{self._path} has numbers from different settings "
                f"({_difference(there, wanted)}): choose a different output, or remove "
                f"{self.directory}"
            )
        # Of a part that was run again, the last line counts.
        last = {line["part"]: line for line in lines[1:]}
        for part, line in last.items():
            if line.get("settings", {}) == self._settings_of(part):
                if self._whole(part, line.get("arrays")):
                    self._done[part] = line
                else:
                    self.lost.append(part)
        for part, line in self._done.items():
            self._made_of(part, line)
        return True

    def _made_of(self, part: str, line: dict[str, Any]) -> None:
        """Take over what a part was made of; refuse what is not as it was for the others."""
        for name, own in line.get("sources", {}).items():
            if self._sources.setdefault(name, own) != own:
                raise LedgerError(
                    f"{self._path}: {part} was made from a different {name} than other parts "
                    f"there (data: {self._sources[name]} and {own}): choose a different output, "
                    "or remove the lines of one of them; those parts are then run again"
                )

    def _whole(self, part: str, noted: str | None) -> bool:
        """Return whether a part's arrays are those that its line was written with."""
        try:
            return noted is None or hash_of(self._arrays(part))[:HASH] == noted
        except OSError:
            return False

    def _line(self, number: int, text: bytes) -> dict[str, Any]:
        where = f"{self._path}, line {number}"
        advice = "remove this line; its part is then run again"
        expected = "a part with its numbers"
        if number == 1:
            expected = "the settings that apply to all numbers"
            advice = f"without it, the origin of the numbers is unknown: remove {self.directory}"
        try:
            line = json.loads(text)
        except ValueError as error:
            raise LedgerError(f"{where}: not valid JSON ({error}): {advice}") from error
        if not (_has(line, FIRST) if number == 1 else _has(line, PART, MORE)):
            got = text[:60].decode(errors="replace")
            raise LedgerError(f"{where}: expected {expected}; got {got!r}: {advice}")
        return line

    def check_source(self, path: Path, name: str) -> None:
        """Note a file or directory that parts are made of; refuse one that has changed since.

        Args:
            path: where it is.
            name: what it is known by, wherever it is: another source has another.

        Raises:
            LedgerError: if parts that are done were made of another.
        """
        if path in self._checked:
            return
        now = _hash_of(path)
        if self._sources.get(name, now) != now:
            raise LedgerError(
                f"{path} differs from the data that the finished parts were made from (data: "
                f"{self._sources[name]} then, {now} now): choose a different output, or remove "
                f"{self.directory}"
            )
        self._noted[name] = now
        self._checked.add(path)

    def add(self, part: str, found: Found) -> None:
        """Keep a part: its arrays first, so that whoever sees its line has them."""
        line: dict[str, Any] = {"part": part}
        if own := self._settings_of(part):
            line["settings"] = own
        if self._noted:
            line["sources"] = dict(self._noted)
        line["numbers"] = as_json(found.numbers)
        if found.arrays:
            path = self._arrays(part)
            path.parent.mkdir(exist_ok=True)
            write_arrays(path, found.arrays)
            line["arrays"] = hash_of(path)[:HASH]
        if made := self._made():
            line["made"] = dict(made)
        self._keep(part, line)

    def take(self, directory: Path) -> None:
        """Take over parts that are done in another directory and not yet here, arrays first."""
        other = Ledger(directory, self._settings, self._settings_of)
        for part, line in other._done.items():
            if part in self:
                continue
            self._made_of(part, line)
            if "arrays" in line:
                arrays = self._arrays(part)
                arrays.parent.mkdir(exist_ok=True)
                write(arrays, other._arrays(part).read_bytes())
            self._keep(part, line)

    def _keep(self, part: str, line: dict[str, Any]) -> None:
        self._append(line)
        self._sources |= line.get("sources", {})
        self._done[part] = line

    def _append(self, line: dict[str, Any]) -> None:
        append(self._path, json.dumps(line, allow_nan=False).encode() + b"\n")

    def _arrays(self, part: str) -> Path:
        # Of a name, not of its characters: they may be none of a file's.
        return self.directory / ARRAYS / f"{sha256(part.encode()).hexdigest()[:16]}.npz"

    @property
    def made(self) -> dict[str, Mapping[str, str]]:
        """What every part was made with; nothing is known of those of earlier versions."""
        return {part: line.get("made", {}) for part, line in self._done.items()}

    def __getitem__(self, part: str) -> Found:
        """Return what a part has found."""
        line = self._done[part]
        arrays = read_arrays(self._arrays(part)) if "arrays" in line else {}
        return Found(line["numbers"], arrays)

    def __contains__(self, part: object) -> bool:
        """Return whether a part is there, without reading its arrays."""
        return part in self._done

    def __iter__(self) -> Iterator[str]:
        """Go through the names of all parts that are there."""
        return iter(self._done)

    def __len__(self) -> int:
        """Return how many parts are there."""
        return len(self._done)


def as_json(own: Any) -> Any:
    """Return it as JSON has it: tuples come back as lists."""
    return json.loads(json.dumps(own))


def _has(line: Any, needed: dict[str, type], more: dict[str, type] | None = None) -> bool:
    """Return whether a line has what it must have and nothing but what it may, of these kinds."""
    known = needed | (more or {})
    return (
        isinstance(line, dict)
        and needed.keys() <= line.keys() <= known.keys()
        and all(isinstance(own, known[name]) for name, own in line.items())
    )


def _hash_of(path: Path) -> str:
    """Return a hash of a file, or of all files of a directory and their names."""
    digest = sha256()
    for own in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if own.is_file():
            digest.update(own.name.encode())
            digest.update(bytes.fromhex(hash_of(own)))
    return digest.hexdigest()[:HASH]


def _difference(there: dict[str, Any], wanted: dict[str, Any]) -> str:
    names = [name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name)]
    first = min(names)
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{first}: {there.get(first)!r} then, {wanted.get(first)!r} now{more}"
