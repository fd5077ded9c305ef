"""Columns of words: which of them mark holes, and what the others say as numbers or levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plmcmc.imputation.reading import LARGEST
from plmcmc.storage.strict_json import shown
from plmcmc.tables.kinds import NUMBER, Kinds, numbers_of

MARKERS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None", "?")
BOOLEANS = {"true": True, "t": True, "yes": True, "y": True, "1": True}
BOOLEANS |= {"false": False, "f": False, "no": False, "n": False, "0": False}
Reader = Callable[[str], Any]


@dataclass(frozen=True)
class Words:
    """The words of a table.

    Attributes:
        path: of its file.
        columns: of words, by name.
        markers: words that mark a hole.
        place: says where a row is.
    """

    path: Path
    columns: Mapping[str, Sequence[str]]
    markers: frozenset[str]
    place: Callable[[int], str]

    # Columns are asked for again and again: to decide, to count holes, to learn, to write.
    @cached_property
    def of(self) -> Callable[[str], tuple[str | None, ...]]:
        """What gives a column's words by its name, None at holes."""
        return cache(self._seen)

    @cached_property
    def values(self) -> Callable[[str, Reader], tuple[Any, ...]]:
        """What gives a column's values by its name and a reader, None at holes."""
        return cache(self._read)

    def holes(self, name: str) -> int:
        """Return how many cells of a column are missing."""
        return self.of(name).count(None)

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return which cells of a column are missing."""
        return np.array([word is None for word in self.of(name)])

    def frame(self, known: Kinds) -> pd.DataFrame:
        """Return these columns with their values.

        Raises:
            ValueError: naming place, column and what came, where a word is not of its kind.
        """
        columns = {}
        for name, kind in known.kinds.items():
            values = self.values(name, reader_of(kind, known.levels.get(name)))
            numeric = kind in ("continuous", "integer")
            columns[name] = pd.Series(values, dtype=np.float64 if numeric else object)
        return pd.DataFrame(columns)

    def _seen(self, name: str) -> tuple[str | None, ...]:
        return tuple(None if self._marks(word.strip()) else word for word in self.columns[name])

    def _marks(self, word: str) -> bool:
        """Whether a word marks a hole; -999 also where it is written -999.0."""
        if word in self.markers:
            return True
        numbers = self._numbers
        return bool(numbers) and NUMBER.fullmatch(word) is not None and float(word) in numbers

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return numbers_of(self.markers)

    def _read(self, name: str, read: Reader) -> tuple[Any, ...]:
        values = []
        for row, word in enumerate(self.of(name)):
            try:
                values.append(None if word is None else read(word))
            except ValueError as error:
                raise ValueError(
                    f"{self.path}, {self.place(row)}, column {shown(name)}: expected {error}; got "
                    f"{shown(word)}. Correct it, mark it missing with --na-values, or declare the "
                    "column's kind with --types when fitting"
                ) from None
        return tuple(values)


class Worded:
    """A table that has its cells as words, too, and knows what they know."""

    words: Words

    def holes(self, name: str) -> int:
        """Return how many cells of a column are missing."""
        return self.words.holes(name)

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return which cells of a column are missing."""
        return self.words.missing(name)

    def place(self, row: int) -> str:
        """Return where a row is, in words."""
        return self.words.place(row)

    def frame(self, known: Kinds) -> pd.DataFrame:
        """Return these columns with their values, or name what is not of its kind."""
        return self.words.frame(known)


def markers_of(na_values: Iterable[str]) -> frozenset[str]:
    """Return the words that mark a hole."""
    return frozenset((*MARKERS, *na_values))


def reader_of(kind: str, levels: Sequence[Any] | None) -> Reader:
    """Return what reads a word of this kind."""
    if kind == "boolean":
        return _boolean
    if kind == "integer":
        return _whole
    if kind == "continuous" or (levels and not isinstance(levels[0], str)):
        return _number
    return str


def _number(word: str) -> float:
    if not NUMBER.fullmatch(word.strip()):
        raise ValueError("a number")
    value = float(word)
    if math.isinf(value):
        raise ValueError("a finite number")
    if abs(value) > LARGEST:
        raise ValueError(f"a number up to {LARGEST:g} (change its units if necessary)")
    return value


def _whole(word: str) -> float:
    value = _number(word)
    if value != round(value):
        raise ValueError("an integer")
    return value


def _boolean(word: str) -> bool:
    try:
        return BOOLEANS[word.strip().lower()]
    except KeyError:
        raise ValueError(f"one of {', '.join(BOOLEANS)}") from None
