"""What the columns of a table are, and its way to codes and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError
from plmcmc.imputation.columns import columns_of, holes_of
from plmcmc.imputation.filling import filled_array, filled_frame
from plmcmc.imputation.kinds import check_storable, check_types, kind_of, levels_of
from plmcmc.imputation.reading import codes_of, numbers_of

Array = NDArray[np.float64]
# Kinds of which a mean says nothing: what most draws are is taken.
VOTED = ("categorical", "boolean")


@dataclass(frozen=True)
class Layout:
    """What the columns of a table are.

    Attributes:
        names: of the columns.
        kinds: of the columns, from `plmcmc.data.schema.KINDS`.
        levels: values of each code of an ordinal, boolean or categorical column; None for others.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    levels: tuple[tuple[Any, ...] | None, ...]

    @classmethod
    def of(cls, table: Any, types: Mapping[str, str] | None = None) -> Layout:
        """Read off a table what its columns are; `types` overrules, by name."""
        columns = columns_of(table)
        check_types(types, list(columns))
        kinds, levels = [], []
        for name, values in columns.items():
            kind = (types or {}).get(name) or kind_of(values, name)
            check_storable(values, name, kind)
            kinds.append(kind)
            levels.append(levels_of(values, name, kind))
        return cls(tuple(columns), tuple(kinds), tuple(levels))

    @property
    def voted(self) -> dict[int, int]:
        """Places of the columns that are told by vote, and how many levels each has."""
        named = enumerate(zip(self.kinds, self.levels, strict=True))
        return {
            place: len(levels)
            for place, (kind, levels) in named
            if levels is not None and kind in VOTED
        }

    def codes(self, table: Any) -> Array:
        """Return `(rows, columns)` of codes, NaN at holes.

        Raises:
            DataError: naming row and column of what cannot be read.
        """
        columns = self._own(table)
        parts = [
            numbers_of(columns[name], name, kind)
            if levels is None
            else codes_of(columns[name], name, levels)
            for name, kind, levels in zip(self.names, self.kinds, self.levels, strict=True)
        ]
        return np.stack(parts, 1)

    def fill(self, table: Any, codes: Array) -> Any:
        """Return a copy of the table with its holes filled; all else is as it was."""
        columns = self._own(table)
        filled = {}
        for place, name in enumerate(self.names):
            holes = holes_of(columns[name])
            if holes.any():
                filled[name] = (holes, self._values(place, codes[holes, place]))
        if hasattr(table, "columns"):
            return filled_frame(table, filled)
        return filled_array(table, {self.names.index(name): own for name, own in filled.items()})

    def shifts(self, delta: Mapping[str, float]) -> Array:
        """Return what to add to each column's codes, `(columns,)`.

        Raises:
            DataError: naming a column that is not there, or cannot be added to.
        """
        if not hasattr(delta, "items"):
            raise DataError(
                f"delta: expected numbers by column name, such as {{{self.names[0]!r}: 1.0}}; got "
                f"{type(delta).__name__}. Name the columns"
            )
        found = np.zeros(len(self.names))
        for name, shift in delta.items():
            if name not in self.names:
                raise DataError(f"delta names column {name!r}; the table has {list(self.names)}")
            place = self.names.index(name)
            _check_shift(shift, name, self.kinds[place])
            found[place] = shift
        return found

    def _values(self, place: int, codes: Array) -> Any:
        """Return what codes of a column stand for."""
        levels = self.levels[place]
        if levels is not None:
            return [levels[int(code)] for code in codes]
        return [round(code) for code in codes] if self.kinds[place] == "integer" else codes

    def _own(self, table: Any) -> dict[str, Any]:
        """Return the columns by the names they were fitted under; an array's by their places."""
        if not hasattr(table, "columns"):
            return dict(zip(self.names, np.asarray(table).T, strict=True))
        columns = columns_of(table)
        self._check_names(list(columns))
        return columns

    def _check_names(self, names: list[str]) -> None:
        missing = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self.names]
        if missing or extra:
            raise DataError(
                f"expected the columns of the fitted table; missing: {missing}; unknown: {extra}. "
                "Rename, add or remove columns"
            )


def _check_shift(shift: float, name: str, kind: str) -> None:
    """Refuse what cannot be added to a column of this kind."""
    if kind not in ("continuous", "integer"):
        raise DataError(
            f"delta names column {name!r}, which is {kind}: only numbers can be shifted"
        )
    if not isinstance(shift, Real):
        raise DataError(f"delta of column {name!r} must be a number; got {shift!r}")
    if not np.isfinite(shift):
        raise DataError(f"delta of column {name!r} must be finite; got {shift}")
    if kind == "integer" and shift != round(shift):
        raise DataError(
            f"delta of column {name!r} must be a whole number, as the column holds integers; got "
            f"{shift}"
        )
