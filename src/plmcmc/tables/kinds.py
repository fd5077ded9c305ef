"""Columns by their names: what they are, one to add, and that no two have one name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plmcmc.imputation.columns import repeated
from plmcmc.storage.strict_json import shown

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)


class Kinds(NamedTuple):
    """What the columns to work with are.

    Attributes:
        kinds: by name, in the order of the model.
        levels: by name, where they are known beforehand.
    """

    kinds: Mapping[str, str]
    levels: Mapping[str, Sequence[Any] | None]


class Flag(NamedTuple):
    """A column to add: of each row, whether its missing values have converged.

    Attributes:
        name: the column's.
        rows: one for each row.
    """

    name: str
    rows: Sequence[bool]


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse a file in which two columns have one name."""
    twice = repeated(names)
    if twice:
        raise ValueError(
            f"{path}: expected unique column names; these occur more than once: {listed(twice)}. "
            "Rename them"
        )


def check_new(path: Path, names: Sequence[str], flag: str | None) -> None:
    """Refuse to add a column to a file that has one of that name."""
    if flag in names:
        raise ValueError(
            f"{path}: --flag {flag} adds a column, but a column of that name exists: choose "
            "another name"
        )


def listed(values: Sequence[Any]) -> str:
    """Return values as a message shows them: the first few, or that there are none."""
    if not values:
        return "none"
    return ", ".join(map(shown, values[:10])) + ", ..." * (len(values) > 10)


def counted(number: int, what: str = "value") -> str:
    """Return a number of things, in words: 1 value, 2 values."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def numbers_of(markers: Iterable[str]) -> frozenset[float]:
    """Return the markers that are numbers."""
    return frozenset(float(word) for word in markers if NUMBER.fullmatch(word.strip()))
