"""What a column is, by its dtype or as it is said to be, and which levels it has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from plmcmc.data import DataError
from plmcmc.data.schema import KINDS
from plmcmc.imputation.columns import dtype_of, holes_of, is_pandas, objects_of

# Names of dtypes of NumPy, pandas, Arrow and polars, in small letters.
INTEGER = re.compile(r"u?int(8|16|32|64)?(\[pyarrow\])?")
TEXT = re.compile(r"|object|utf8|(large_)?str(ing)?(\[.*\])?")
# Of so many values, and more, no larger share may be levels of their own.
MANY, DISTINCT = 20, 0.8


def check_types(types: Mapping[str, str] | None, names: list[str]) -> None:
    """Refuse kinds that there are not, and columns that are not there."""
    for name, kind in (types or {}).items():
        if name not in names:
            raise DataError(f"types names a column {name!r}; the table has {names}")
        if kind not in KINDS:
            raise DataError(f"types[{name!r}] must be one of {', '.join(KINDS)}; got {kind!r}")


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
            f"column {name!r} is of {dtype}, which cannot be imputed: leave it out, or turn it "
            f"into numbers or text"
        )
    return "boolean" if _all_boolean(values) else "categorical"


def check_storable(values: Any, name: str, kind: str) -> None:
    """Refuse a kind whose values the column could not take in."""
    if kind == "continuous" and INTEGER.fullmatch(dtype_of(values)):
        raise DataError(
            f"column {name!r} is stored as {dtype_of(values)}, and types says it is continuous: "
            f"make it floats, so that it can hold what is filled in"
        )


def levels_of(values: Any, name: str, kind: str) -> tuple[Any, ...] | None:
    """Return the values that a column's codes stand for; None of numbers."""
    if kind in ("continuous", "integer"):
        return None
    if kind == "boolean":
        return (False, True)
    known = objects_of(values)[~holes_of(values)].tolist()
    try:
        seen = dict.fromkeys(known)
        # Levels that are declared and never seen have nothing to be learned from.
        declared = _declared(values)
        levels = sorted(seen) if declared is None else [c for c in declared if c in seen]
    except TypeError as error:
        types = sorted({type(value).__name__ for value in known})
        verb = "mixes" if len(types) > 1 else "holds"
        raise DataError(
            f"column {name!r} {verb} {', '.join(types)}: make them one kind, text or numbers"
        ) from error
    if kind == "categorical":
        _check_repeated(name, len(levels), len(known))
    return tuple(levels)


def _check_repeated(name: str, levels: int, values: int) -> None:
    """Refuse a column of which nearly every value is one of its own."""
    if values >= MANY and levels > DISTINCT * values:
        raise DataError(
            f"column {name!r} has {levels} levels among {values} values: identifiers and free "
            f"text cannot be imputed; leave it out"
        )


def _all_boolean(values: Any) -> bool:
    seen = list(objects_of(values)[~holes_of(values)])
    return bool(seen) and all(isinstance(value, bool | np.bool_) for value in seen)


def _declared(values: Any) -> list[Any] | None:
    """Return a column's categories in their order; None where it has none."""
    if is_pandas(values):
        categories = getattr(getattr(values, "cat", None), "categories", None)
    else:
        # polars' Enum has an order of its own; its Categorical has none.
        categories = getattr(getattr(values, "dtype", None), "categories", None)
        categories = categories if dtype_of(values).startswith("enum") else None
    return None if categories is None else list(categories)
