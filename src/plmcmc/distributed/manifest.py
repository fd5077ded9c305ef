"""The manifest: a line for every part that is done, so that a rerun does only what is missing.

It only grows, and a line counts if its end is there. Besides parts it notes which files are
written as wholes, and which were refused: of a file that was refused, another content may come. One
that is refused no more is noted as open again, and one whose output is not what was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plmcmc.disk import append, hash_of, whole_lines
from plmcmc.distributed.work_plan import Line, Order, Source, stamp_of

Written = Sequence[Any]
"""An output's size in bytes, when it was written, in nanoseconds, and its hash."""


@dataclass
class State:
    """How far a file has come.

    Attributes:
        digest: of what it was when its first part was done.
        parts: what was told of those that are done, by number.
        whole: whether it is written.
        written: size, time and hash of each output, once it is.
        refused: whether it was, and has been neither written nor found readable since.
    """

    digest: str
    parts: dict[int, Line] = field(default_factory=dict)
    whole: bool = False
    written: list[Written] = field(default_factory=list)
    refused: bool = False


class Manifest:
    """What is done of some files.

    Args:
        path: the manifest's; made with its first line.
        sources: the files.
        order: says where parts are kept.
        overwrite: do files anew that have changed since parts of them were done.

    Attributes:
        spoiled: outputs that are not what was written: their files are open again.

    Raises:
        FileExistsError: if a file of which parts are done has changed since.
    """

    def __init__(
        self, path: Path, sources: Sequence[Source], order: Order, *, overwrite: bool = False
    ) -> None:
        self.path, self.order, self.overwrite = path, order, overwrite
        self.sources = {source.number: source for source in sources}
        self.states: dict[int, State] = {}
        self.spoiled: list[Path] = []
        for line in self._lines():
            self._take(line)
        # Noted after all are checked: a job that is not gone on with stays as it is.
        for number in [source.number for source in sources if self._check(source)]:
            self.add({"open": number})

    def has(self, file: int, part: int) -> bool:
        """Whether a part is done."""
        state = self.states[file]
        return state.whole or part in state.parts

    def complete(self, file: int) -> bool:
        """Whether all parts of a file are done."""
        return len(self.states[file].parts) == self.sources[file].part_count

    def forget(self, file: int, part: int) -> None:
        """Have a part done again; its next line counts instead of the one that is there."""
        del self.states[file].parts[part]

    def begun(self, file: int) -> bool:
        """Whether parts of a file are done, and it is neither written nor refused."""
        state = self.states.get(file)
        return state is not None and bool(state.parts) and not (state.whole or state.refused)

    @property
    def told(self) -> list[Line]:
        """What was told of all parts that are done, of the files."""
        return [line for number in self.sources for line in self.states[number].parts.values()]

    def stands(self, file: int, places: Sequence[Path]) -> bool:
        """Whether a file is written, and its outputs are still there, as they were written."""
        state = self.states.get(file)
        there = state is not None and state.whole and all(place.is_file() for place in places)
        return there and not self._spoiled(file, places)

    def finish(self, file: int) -> None:
        """Note that a file is written."""
        places = self.sources[file].places
        self.add({"whole": file, "written": [[*stamp_of(p), hash_of(p)] for p in places]})

    def refuse(self, problems: Mapping[int, str]) -> None:
        """Note that files cannot be read any more of which parts are done."""
        for number, words in problems.items():
            if self.begun(number):
                self.add({"refused": number, "problem": words})

    def add(self, line: Line) -> None:
        """Note that something is done.

        The disk is waited for once a file is whole: parts that a power cut forgets are done again.
        """
        number = _file_of(line)
        # Of a file that cannot be read, what it was when its parts were done.
        known = self.sources.get(number) or self.states[number]
        line = {**line, "sha256": known.digest}
        content = (json.dumps(line) + "\n").encode()
        append(self.path, content, sync="whole" in line)
        self._take(line)

    def _take(self, line: Line) -> None:
        """Count a line; lines of another content of the file begin it anew."""
        number, digest = _file_of(line), line["sha256"]
        state = self.states.get(number)
        if state is None or state.digest != digest:
            state = self.states[number] = State(digest)
        # Another worker may tell of a part after one has refused the file.
        state.refused = "refused" in line or (state.refused and "part" in line)
        if "part" in line:
            state.parts[line["part"][1]] = line
        if "whole" in line:
            state.whole, state.written = True, line["written"]
        if "open" in line and state.whole:
            # Parts go once a file is written.
            state.whole, state.written, state.parts = False, [], {}

    def _check(self, source: Source) -> bool:
        """Look at what is done of a file; return whether it was refused or written, and is open."""
        state = self.states.get(source.number)
        if state is not None and state.digest != source.digest:
            if not (state.refused or self.overwrite):
                raise FileExistsError(
                    f"{self.path.parent} holds a different job that was interrupted (differences: "
                    f"{source.path} has changed since parts of it were filled). Finish it with "
                    "the original file, choose a different output, or discard it with --overwrite"
                )
            state = None
        if state is None:
            state = self.states[source.number] = State(source.digest)
        if self.stands(source.number, source.places):
            return False
        self.spoiled += self._spoiled(source.number, source.places)
        for number in list(state.parts):
            if not all(place.exists() for place in self.order.places(source.number, number)):
                del state.parts[number]
        return state.refused or state.whole

    def _spoiled(self, file: int, places: Sequence[Path]) -> list[Path]:
        """Return the outputs of a file that are there, and not as they were written."""
        told = self.states[file].written
        pairs = zip(places, told, strict=True) if told else ()
        return [place for place, own in pairs if place.is_file() and not _is_as_told(place, own)]

    def _lines(self) -> Iterator[Line]:
        """Yield the lines that are there, and cut off one that was not finished."""
        for text in whole_lines(self.path) if self.path.exists() else ():
            yield json.loads(text)


def _is_as_told(place: Path, told: Written) -> bool:
    """Whether a file is what was written; it is read only if its time has changed."""
    size, time, digest = told
    now = stamp_of(place)
    return now[0] == size and (now[1] == time or hash_of(place) == digest)


def _file_of(line: Line) -> int:
    """Return the number of the file that a line speaks of."""
    if "part" in line:
        return line["part"][0]
    return next(line[key] for key in ("whole", "refused", "open") if key in line)
