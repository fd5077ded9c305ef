"""JSON that anyone may have written: one meaning for each text, fields asked for by type."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Collection
from typing import Any, TypeVar

T = TypeVar("T")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
# Digits of a whole number: 128 bits and some. More are no size and no seed.
MOST_DIGITS = 40
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
}


def parsed(content: bytes) -> Any:
    """Return what a text says.

    Raises:
        ValueError: for what is no JSON in UTF-8, and for what readers would take differently: NaN
            and infinities, names that stand twice, numbers that are too long.
    """
    try:
        return json.loads(
            content.decode("utf-8"),
            parse_constant=_no_number,
            parse_float=_number,
            parse_int=_whole,
            object_pairs_hook=_once,
        )
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None


class Fields:
    """The fields of an object, each asked for by name and type.

    Args:
        found: what was parsed.
        where: what the object is called in messages, such as `config.json, flow`.
    """

    def __init__(self, found: Any, where: str) -> None:
        if not isinstance(found, dict):
            raise TypeError(f"{where}: expected an object; got {shown(found)}")
        self.found, self.where = found, where

    def has(self, name: str) -> bool:
        """Whether there is such a field, and it is not null."""
        return self.found.get(name) is not None

    def take(self, name: str, kind: type[T], among: Collection[T] | None = None) -> T:
        """Return a field of a type; whole numbers are numbers, too, and truth is neither."""
        value: Any = self._there(name)
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits:
            raise ValueError(f"{self._named(name)}: expected {_WORDS[kind]}; got {shown(value)}")
        if among is not None and value not in among:
            known = ", ".join(map(str, among))
            raise ValueError(f"{self._named(name)}: expected one of {known}; got {shown(value)}")
        return self.found[name]

    def count(self, name: str, least: int = 0, most: int | None = None) -> int:
        """Return a whole number that is not below `least`, and not above `most`."""
        value = self.take(name, int)
        if value < least:
            raise ValueError(f"{self._named(name)}: expected {least} or more; got {value}")
        if most is not None and value > most:
            raise ValueError(f"{self._named(name)}: expected {most} or less; got {value}")
        return value

    def only(self, names: Collection[str]) -> None:
        """Refuse fields of other names."""
        strange = [name for name in self.found if name not in names]
        if strange:
            raise ValueError(f"{self.where}: unknown field {shown(strange[0])}")

    def inside(self, name: str) -> Fields:
        """Return the fields of an object in this one."""
        return Fields(self._there(name), self._named(name))

    def each(self, name: str) -> list[Fields]:
        """Return the fields of each object of a list."""
        found = self.take(name, list)
        return [Fields(own, f"{self._named(name)}[{n}]") for n, own in enumerate(found)]

    def _there(self, name: str) -> Any:
        if name not in self.found:
            raise ValueError(f"{self._named(name)} is missing")
        return self.found[name]

    def _named(self, name: str) -> str:
        # The first name follows the file's.
        return f"{self.where}{'.' if ', ' in self.where else ', '}{name}"


def shown(value: Any) -> str:
    """Return a value for a message, cut where it is long."""
    return _SHORT.repr(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate key {shown(twice)}")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"{digits[:12]}... is a number of {len(digits)} digits")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:24]} is not a finite number")
    return value


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number in JSON")
