"""What a column is, by its dtype or as it is said to be, and which levels it has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError
from plmcmc.data.schema import KINDS
from plmcmc.imputation.columns import dtype_of, holes_of, is_pandas, objects_of

# Names of dtypes of NumPy, pandas, Arrow and polars, in small letters.
INTEGER = re.compile(r"u?int(8|16|32|64)?(\[pyarrow\])?")
TEXT = re.compile(r"|object|utf8|(large_)?str(ing)?(\[.*\])?")
# Levels that a column may have: votes for all of them are counted in every row.
MOST_LEVELS = 200
# Of so many values, and more, no larger share may be levels of their own.
MANY, DISTINCT = 20, 0.8


def check_types(types: Mapping[str, str] | None, names: list[str]) -> None:
    """Refuse kinds that there are not, and columns that are not there."""
    if types is not None and not hasattr(types, "items"):
        raise DataError(
            f"types: expected kinds by column name, such as {{{names[0]!r}: 'integer'}}; got "
            f"{type(types).__name__}. Name the columns"
        )
    for name, kind in (types or {}).items():
        if name not in names:
            raise DataError(
                f"types: expected columns of the table, {names}; got {name!r}. Correct it"
            )
        if kind not in KINDS:
            raise DataError(
                f"types[{name!r}]: expected one of {', '.join(KINDS)}; got {kind!r}. Choose one"
            )


def kind_of(values: Any, name: str) -> str:
    """Return what kind a column is by its dtype: nothing is guessed from numbers."""
    dtype = dtype_of(values)
    if dtype.startswith("bool"):
        return "boolean"
    if INTEGER.fullmatch(dtype):
        return "integer"
    if dtype.startswith(("float", "double", "decimal")):
        return "continuous"
    if dtype.startswith("categor"):
        ordered = bool(getattr(getattr(values, "cat", None), "ordered", False))
        return "ordinal" if ordered else "categorical"
    if dtype.startswith("enum"):
        return "ordinal"
    if not TEXT.fullmatch(dtype):
        raise DataError(
            f"column {name!r}: expected numbers, booleans, text or categories; got {dtype}, which "
            f"cannot be imputed. Leave it out, or turn it into numbers or text"
        )
    return _kind_of_objects(objects_of(values)[~holes_of(values)].tolist(), name)


def _kind_of_objects(seen: list[Any], name: str) -> str:
    """Return what kind values are that may be anything: numbers are no levels here either."""
    if seen and all(isinstance(value, bool | np.bool_) for value in seen):
        return "boolean"
    if seen and not any(isinstance(value, bool) for value in seen):
        if all(isinstance(value, int | np.integer) for value in seen):
            return "integer"
        if all(isinstance(value, int | float | np.number) for value in seen):
            return "continuous"
    others = [value for value in seen if isinstance(value, date | time | Decimal | Fraction)]
    if others:
        raise DataError(
            f"column {name!r}: expected numbers, booleans, text or categories; got "
            f"{type(others[0]).__name__}, which cannot be imputed. Leave it out, or turn it into "
            f"numbers or text"
        )
    return "categorical"


def check_storable(values: Any, name: str, kind: str) -> None:
    """Refuse a kind whose values the column could not take in."""
    if kind == "continuous" and INTEGER.fullmatch(dtype_of(values)):
        raise DataError(
            f"column {name!r}: expected floats, as types says it is continuous; it is stored as "
            f"{dtype_of(values)}, which cannot hold what is filled in. Make it floats"
        )
    if kind == "boolean":
        _check_boolean(values, name)


def _check_boolean(values: Any, name: str) -> None:
    holes, raw = holes_of(values), objects_of(values)
    for row in np.flatnonzero(~holes):
        if raw[row] not in (False, True):
            raise DataError(
                f"column {name!r}, row {row}: expected True or False, as types says it is boolean; "
                f"got {raw[row]!r}. Turn it into booleans, or say that it is categorical"
            )


def levels_of(values: Any, name: str, kind: str) -> tuple[Any, ...] | None:
    """Return the values that a column's codes stand for; None of numbers."""
    if kind in ("continuous", "integer"):
        return None
    if kind == "boolean":
        return (False, True)
    holes, raw = holes_of(values), objects_of(values)
    known = raw[~holes].tolist()
    try:
        seen = dict.fromkeys(known)
        # Levels that are declared and never seen have nothing to be learned from.
        declared = _declared(values)
        levels = sorted(seen) if declared is None else [c for c in declared if c in seen]
    except TypeError as error:
        raise DataError(
            f"column {name!r}: expected values of one kind, text or numbers; got "
            f"{_first_of_each_kind(holes, raw)}. Turn them into one kind, and marks of missing "
            "values into None"
        ) from error
    if kind == "categorical":
        _check_repeated(name, len(levels), len(known))
    return tuple(levels)


def _first_of_each_kind(holes: NDArray[np.bool_], raw: NDArray[Any]) -> str:
    """Return the first value of each type, and the rows they are in."""
    first = {type(raw[row]).__name__: row for row in np.flatnonzero(~holes)[::-1]}
    return ", ".join(f"{raw[row]!r} in row {row}" for _, row in sorted(first.items()))


def _check_repeated(name: str, levels: int, values: int) -> None:
    """Refuse a column of which nearly every value is one of its own."""
    if values >= MANY and levels > DISTINCT * values:
        raise DataError(
            f"column {name!r}: expected levels that repeat; got {levels} among {values} values, "
            "as in identifiers and free text. Leave it out"
        )
    if levels > MOST_LEVELS:
        raise DataError(
            f"column {name!r}: expected at most {MOST_LEVELS} levels; got {levels}. Merge rare "
            "ones, or leave the column out"
        )


def _declared(values: Any) -> list[Any] | None:
    """Return a column's categories in their order; None where it has none."""
    if is_pandas(values):
        categories = getattr(getattr(values, "cat", None), "categories", None)
    else:
        # polars' Enum has an order of its own; its Categorical has none.
        categories = getattr(getattr(values, "dtype", None), "categories", None)
        categories = categories if dtype_of(values).startswith("enum") else None
    return None if categories is None else list(categories)
