"""Tables of NumPy, pandas and polars as codes, and codes put back into the holes of such tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError
from plmcmc.data.schema import KINDS

Array = NDArray[np.float64]
# Names of dtypes of NumPy, pandas, Arrow and polars, in small letters.
INTEGER = re.compile(r"u?int(8|16|32|64)?(\[pyarrow\])?")
TEXT = re.compile(r"|object|utf8|(large_)?str(ing)?(\[.*\])?")
NUMERIC = re.compile(r"(float|double|u?int|bool|boolean)(8|16|32|64)?(\[pyarrow\])?")

# Of so many values, and more, no larger share may be levels of their own.
MANY, DISTINCT = 20, 0.8
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
        columns = _columns(table)
        _check_types(types, list(columns))
        kinds, levels = [], []
        for name, values in columns.items():
            kind = (types or {}).get(name) or _kind(values, name)
            _check_storable(values, name, kind)
            kinds.append(kind)
            levels.append(_levels(values, name, kind))
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
            _numbers(columns[name], name, kind)
            if levels is None
            else _coded(columns[name], name, levels)
            for name, kind, levels in zip(self.names, self.kinds, self.levels, strict=True)
        ]
        return np.stack(parts, 1)

    def fill(self, table: Any, codes: Array) -> Any:
        """Return a copy of the table with its holes filled; all else is as it was."""
        columns = self._own(table)
        filled = {}
        for place, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            holes = _holes(columns[name])
            if holes.any():
                found = codes[holes, place]
                if levels is not None:
                    found = [levels[int(code)] for code in found]
                elif self.kinds[place] == "integer":
                    found = np.round(found)
                filled[name] = (holes, found)
        if not hasattr(table, "columns"):
            copy = np.array(table)
            for name, (holes, found) in filled.items():
                copy[holes, self.names.index(name)] = found
            return copy
        return _replaced(table, filled)

    def shifts(self, delta: Mapping[str, float]) -> Array:
        """Return what to add to each column's codes, `(columns,)`.

        Raises:
            DataError: naming a column that is not there, or cannot be added to.
        """
        found = np.zeros(len(self.names))
        for name, shift in delta.items():
            if name not in self.names:
                raise DataError(f"delta names column {name!r}; the table has {list(self.names)}")
            place = self.names.index(name)
            if self.levels[place] is not None:
                raise DataError(
                    f"delta names column {name!r}, which is {self.kinds[place]}: only numbers can "
                    f"be shifted"
                )
            if not np.isfinite(shift):
                raise DataError(f"delta of column {name!r} must be finite; got {shift}")
            if self.kinds[place] == "integer" and shift != round(shift):
                raise DataError(
                    f"delta of column {name!r} must be whole, as the column is; got {shift}"
                )
            found[place] = shift
        return found

    def _own(self, table: Any) -> dict[str, Any]:
        """Return the columns by the names they were fitted under; an array's by their places."""
        if not hasattr(table, "columns"):
            return dict(zip(self.names, np.asarray(table).T, strict=True))
        columns = _columns(table)
        self._check_names(list(columns))
        return columns

    def _check_names(self, names: list[str]) -> None:
        missing = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self.names]
        if missing or extra:
            raise DataError(
                f"the table's columns are not those that were fitted: missing {missing}, not known "
                f"{extra}"
            )


def _columns(table: Any) -> dict[str, Any]:
    """Return the columns by name; those of an array are named by their number."""
    if hasattr(table, "columns"):
        check_names(table)
        return {str(name): table[name] for name in table.columns}
    return {str(place): column for place, column in enumerate(np.asarray(table).T)}


def check_names(table: Any) -> None:
    """Refuse a table in which two columns have one name."""
    counted = Counter(str(name) for name in table.columns)
    twice = [name for name, count in counted.items() if count > 1]
    if twice:
        raise DataError(f"columns must have names of their own; these occur twice: {twice}")


def _holes(values: Any) -> NDArray[np.bool_]:
    import pandas as pd

    raw = values.to_numpy() if hasattr(values, "to_numpy") and not _is_pandas(values) else values
    found = np.asarray(pd.isna(raw))
    if hasattr(values, "is_null"):
        # polars has nulls beside NaN.
        found = found | values.is_null().to_numpy()
    return found


def _is_pandas(values: Any) -> bool:
    return type(values).__module__.startswith("pandas")


def _kind(values: Any, name: str) -> str:
    """Return what kind a column is by its dtype: nothing is guessed from numbers."""
    dtype = _dtype(values)
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


def _check_storable(values: Any, name: str, kind: str) -> None:
    """Refuse a kind whose values the column could not take in."""
    if kind == "continuous" and INTEGER.fullmatch(_dtype(values)):
        raise DataError(
            f"column {name!r} is stored as {_dtype(values)}, and types says it is continuous: "
            f"make it floats, so that it can hold what is filled in"
        )


def _dtype(values: Any) -> str:
    return str(getattr(values, "dtype", "")).lower()


def _all_boolean(values: Any) -> bool:
    seen = list(_raw(values)[~_holes(values)])
    return bool(seen) and all(isinstance(value, bool | np.bool_) for value in seen)


def _levels(values: Any, name: str, kind: str) -> tuple[Any, ...] | None:
    if kind in ("continuous", "integer"):
        return None
    if kind == "boolean":
        return (False, True)
    known = _raw(values)[~_holes(values)].tolist()
    try:
        seen = dict.fromkeys(known)
        # Levels that are declared and never seen have nothing to be learned from.
        declared = _declared(values)
        levels = sorted(seen) if declared is None else [c for c in declared if c in seen]
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in known})
        verb = "mixes" if len(kinds) > 1 else "holds"
        raise DataError(
            f"column {name!r} {verb} {', '.join(kinds)}: make them one kind, text or numbers"
        ) from error
    if kind == "categorical" and len(known) >= MANY and len(levels) > DISTINCT * len(known):
        raise DataError(
            f"column {name!r} has {len(levels)} levels among {len(known)} values: identifiers and "
            f"free text cannot be imputed; leave it out"
        )
    return tuple(levels)


def _declared(values: Any) -> list[Any] | None:
    """Return a column's categories in their order; None where it has none."""
    if _is_pandas(values):
        categories = getattr(getattr(values, "cat", None), "categories", None)
    else:
        # polars' Enum has an order of its own; its Categorical has none.
        categories = getattr(getattr(values, "dtype", None), "categories", None)
        categories = categories if _dtype(values).startswith("enum") else None
    return None if categories is None else list(categories)


def _numbers(values: Any, name: str, kind: str) -> Array:
    codes = _stored_numbers(values)
    if codes is None:
        codes = _read_numbers(values, name)
    infinite = np.isinf(codes)
    if infinite.any():
        raise DataError(
            f"column {name!r} is infinite at row {int(infinite.argmax())}: mark it missing, or "
            f"give a finite value"
        )
    broken = np.isfinite(codes) & (codes != np.round(codes)) if kind == "integer" else infinite
    if broken.any():
        row = int(broken.argmax())
        raise DataError(
            f"column {name!r} is of integers, and row {row} holds {codes[row]}: round it, or fit "
            f"again with types={{{name!r}: 'continuous'}}"
        )
    return codes


def _stored_numbers(values: Any) -> Array | None:
    """Return a column that is stored as numbers, or None: an object for each takes long."""
    if not NUMERIC.fullmatch(_dtype(values)):
        return None
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    if _is_pandas(values):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if type(values).__module__.startswith("polars"):
        import polars as pl

        return values.cast(pl.Float64).to_numpy()
    return None


def _read_numbers(values: Any, name: str) -> Array:
    """Read a column of objects as numbers, one by one."""
    holes = _holes(values)
    try:
        found = np.asarray(_raw(values)[~holes], dtype=np.float64)
    except (TypeError, ValueError) as error:
        row = next(row for row in np.flatnonzero(~holes) if not _is_number(_raw(values)[row]))
        raise DataError(
            f"column {name!r} is numeric, and row {row} holds {_raw(values)[row]!r}: mark it "
            f"missing, or say types={{{name!r}: 'categorical'}}"
        ) from error
    codes = np.full(len(holes), np.nan)
    codes[~holes] = found
    return codes


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _coded(values: Any, name: str, levels: Sequence[Any]) -> Array:
    import pandas as pd

    holes, raw = _holes(values), _raw(values)
    codes = pd.Index(list(levels), dtype=object).get_indexer(pd.Index(raw, dtype=object))
    unseen = (codes < 0) & ~holes
    if unseen.any():
        row = int(unseen.argmax())
        raise DataError(
            f"column {name!r} holds {raw[row]!r} at row {row}, which the fitted table did not: "
            f"known are {list(levels)[:10]}; mark it missing, or fit again"
        )
    return np.where(holes, np.nan, codes.astype(np.float64))


def _raw(values: Any) -> NDArray[Any]:
    return np.asarray(values, dtype=object)


def _check_types(types: Mapping[str, str] | None, names: list[str]) -> None:
    for name, kind in (types or {}).items():
        if name not in names:
            raise DataError(f"types names a column {name!r}; the table has {names}")
        if kind not in KINDS:
            raise DataError(f"types[{name!r}] must be one of {', '.join(KINDS)}; got {kind!r}")


def _replaced(table: Any, filled: Mapping[str, tuple[NDArray[np.bool_], Any]]) -> Any:
    """Return a copy of the table with these places changed."""
    replaced = _replaced_pandas if _is_pandas(table) else _replaced_polars
    columns = {}
    for label in table.columns:
        if str(label) in filled:
            holes, found = filled[str(label)]
            try:
                columns[label] = replaced(table[label], holes, found)
            except (TypeError, ValueError, OverflowError, ArithmeticError) as problem:
                raise DataError(
                    f"column {str(label)!r} is stored as {_dtype(table[label])}, which cannot hold "
                    f"what is to be filled in: {problem}"
                ) from problem
    if not _is_pandas(table):
        return table.with_columns(list(columns.values()))
    copy = table.copy()
    for label, column in columns.items():
        copy[label] = column
    return copy


def _replaced_pandas(values: Any, holes: NDArray[np.bool_], found: Any) -> Any:
    import pandas as pd

    column = values.copy()
    column[holes] = pd.array(found, dtype=column.dtype)
    return column


def _replaced_polars(values: Any, holes: NDArray[np.bool_], found: Any) -> Any:
    import polars as pl

    new = pl.Series(values.name, list(found))
    new = new.cast(pl.Int64 if values.dtype.is_integer() else new.dtype).cast(values.dtype)
    return values.clone().scatter(np.flatnonzero(holes), new)
