"""What is kept of an experiment: a line for every finished part, and its arrays beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from plmcmc.disk import check_directory, failing_in_words, hash_of
from plmcmc.experiments.kept import read_arrays, write_arrays
from plmcmc.experiments.study import Found

LINES, ARRAYS = "numbers.jsonl", "arrays"


class LedgerError(ValueError):
    """What is there cannot be gone on with."""


class Ledger(Mapping[str, Found]):
    """Parts that are done, in a directory that is theirs.

    Args:
        directory: where they are; made if it is not there.
        settings: what all numbers depend on. Those of other settings are refused.
        settings_of: what the numbers of one part depend on, too. Of other ones, it is not done.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Any],
        settings_of: Callable[[str], Mapping[str, Any]] = lambda part: {},
    ) -> None:
        self.directory = directory
        self._settings_of = lambda part: as_json(settings_of(part))
        self._numbers: dict[str, dict[str, Any]] = {}
        # Files that parts were made of, by name, and which of them were looked at in this process.
        self._sources: dict[str, str] = {}
        self._checked: set[Path] = set()
        check_directory(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / LINES
        wanted = as_json(settings)
        if not self._path.exists() or not self._read(wanted):
            self._append({"settings": wanted})

    def _read(self, wanted: dict[str, Any]) -> bool:
        """Read all lines; return whether there were any."""
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            # Somebody was stopped while writing it: that part is run again.
            os.truncate(self._path, len(whole))
        lines = [self._line(number, text) for number, text in enumerate(whole.splitlines(), 1)]
        if not lines:
            return False
        there = lines[0].get("settings")
        if there != wanted:
            raise LedgerError(
                f"{self._path} has numbers of other settings ({_difference(there, wanted)}): "
                f"choose another output, or remove {self.directory}"
            )
        # Of a part that was run again, the last line counts.
        last = {line["part"]: line for line in lines[1:] if "part" in line}
        self._numbers = {
            part: line["numbers"]
            for part, line in last.items()
            if line.get("settings", {}) == self._settings_of(part)
        }
        self._sources = {line["source"]: line["hash"] for line in lines[1:] if "source" in line}
        return True

    def _line(self, number: int, text: bytes) -> dict[str, Any]:
        try:
            line = json.loads(text)
        except ValueError as error:
            raise LedgerError(f"{self._path}, line {number}: no JSON ({error})") from error
        expected = [{"settings"}]
        if number > 1:
            part = {"part", "numbers"}
            expected = [part, part | {"settings"}, {"source", "hash"}]
        if not isinstance(line, dict) or line.keys() not in expected:
            raise LedgerError(f"{self._path}, line {number}: expected {sorted(expected[0])}")
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
        if self._sources.get(name, now) != now and self._numbers:
            raise LedgerError(
                f"{path} is not what the parts that are done were made of (data: "
                f"{self._sources[name]} there, {now} now): choose another output, or remove "
                f"{self.directory}"
            )
        if self._sources.get(name) != now:
            self._append({"source": name, "hash": now})
        self._sources[name] = now
        self._checked.add(path)

    def add(self, part: str, found: Found) -> None:
        """Keep a part: its arrays first, so that whoever sees its line has them."""
        if found.arrays:
            path = self._arrays(part)
            path.parent.mkdir(exist_ok=True)
            write_arrays(path, found.arrays)
        own = self._settings_of(part)
        line = {"part": part} | ({"settings": own} if own else {}) | {"numbers": found.numbers}
        self._append(line)
        self._numbers[part] = as_json(found.numbers)

    def _append(self, line: dict[str, Any]) -> None:
        content = json.dumps(line, allow_nan=False).encode() + b"\n"
        with failing_in_words(self._path), self._path.open("ab") as file:
            before = file.tell()
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self._path, before)
                raise

    def _arrays(self, part: str) -> Path:
        # Of a name, not of its characters: they may be none of a file's.
        return self.directory / ARRAYS / f"{sha256(part.encode()).hexdigest()[:16]}.npz"

    def __getitem__(self, part: str) -> Found:
        """Return what a part has found."""
        numbers, path = self._numbers[part], self._arrays(part)
        return Found(numbers, read_arrays(path)) if path.exists() else Found(numbers)

    def __iter__(self) -> Iterator[str]:
        """Go through the names of all parts that are there."""
        return iter(self._numbers)

    def __len__(self) -> int:
        """Return how many parts are there."""
        return len(self._numbers)


def as_json(own: Any) -> Any:
    """Return it as JSON has it: tuples come back as lists."""
    return json.loads(json.dumps(own))


def _hash_of(path: Path) -> str:
    """Return a hash of a file, or of all files of a directory and their names."""
    digest = sha256()
    for own in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if own.is_file():
            digest.update(own.name.encode())
            digest.update(bytes.fromhex(hash_of(own)))
    return digest.hexdigest()[:16]


def _difference(there: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(there, dict):
        return "unreadable"
    names = [name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name)]
    first = min(names)
    more = f", and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{first}: {there.get(first)!r} there, {wanted.get(first)!r} now{more}"
