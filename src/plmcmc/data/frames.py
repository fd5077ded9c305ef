"""Tables of pandas and polars: their numbers as an array, and what they call columns and rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.data.refusal import DataError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Labels:
    """What a table calls its columns and rows.

    Attributes:
        columns: their names, or None if they have only numbers.
        index: of a pandas table, or None if its rows are only numbered.
    """

    columns: tuple[str, ...] | None = None
    index: pd.Index | None = None

    @classmethod
    def of(cls, x: Any) -> Labels:
        """Return the labels of a table; an array has none."""
        if not is_table(x) or _dimensions(x) != 2:
            return cls()
        columns, rows = x.columns, getattr(x, "index", None)
        names = None if _only_numbers(columns) else tuple(map(str, columns))
        return cls(names, None if _only_numbers(rows) else rows)

    def described(self) -> dict[str, list[str | int]]:
        """Return what `read` takes; an index of other things than text and integers is left out."""
        rows = [] if self.index is None else self.index.to_list()
        plain = all(type(label) in (str, int) for label in rows)
        found = {"columns": list(self.columns or ()), "index": rows if plain else []}
        return {name: labels for name, labels in found.items() if labels}

    @classmethod
    def read(cls, found: Mapping[str, Any], shape: tuple[int, ...]) -> Labels:
        """Return the labels that were described, for an array of this shape; check them."""
        import pandas as pd

        for name, labels in found.items():
            count = {"index": shape[0], "columns": shape[1] if len(shape) == 2 else None}.get(name)
            fits = isinstance(labels, list) and len(labels) == count
            if not fits or not all(type(label) in (str, int) for label in labels):
                raise ValueError(f"{name} is no list of {count} labels, text or whole numbers")
        columns, rows = found.get("columns"), found.get("index")
        return cls(
            None if columns is None else tuple(map(str, columns)),
            None if rows is None else pd.Index(rows),
        )


def is_table(x: Any) -> bool:
    """Whether `x` is a table or a column of pandas or polars."""
    origins = {kind.__module__.partition(".")[0] for kind in type(x).__mro__}
    return bool(origins & {"pandas", "polars"}) and (hasattr(x, "to_numpy") or _is_lazy(x))


def numbers_of(table: Any, what: str = "x") -> NDArray[Any]:
    """Return the numbers of a table or a column, NaN where there is none.

    Args:
        table: of pandas or polars.
        what: it is called in messages.

    Raises:
        DataError: naming a column that holds something else, or if the table is lazy.
    """
    if _is_lazy(table):
        raise DataError(f"{what} is a LazyFrame, which has no values yet: pass {what}.collect()")
    if _dimensions(table) != 2:
        return _numbers(table, what, "")
    if hasattr(table, "iloc"):
        columns = [table.iloc[:, place] for place in range(table.shape[1])]
    else:
        columns = table.get_columns()
    if not columns:
        return np.empty(table.shape)
    # Numbers, from here on, are of a kind that holds those of all columns.
    pairs = zip(columns, table.columns, strict=True)
    return np.stack([_numbers(column, what, f" {name!r}") for column, name in pairs], axis=1)


def check_order(own: Labels, other: Any, what: str) -> None:
    """Refuse a table with these labels in another order: it would be taken by position."""
    if not is_table(other):
        return
    theirs = Labels.of(other)
    columns, rows = theirs.columns, theirs.index
    if _dimensions(other) == 1:
        # One number for each column, or for each row.
        columns = rows = getattr(other, "index", None)
    for kind, one, another in (("columns", own.columns, columns), ("rows", own.index, rows)):
        if _shuffled(one, another):
            raise DataError(
                f"{what} has the {kind} of x in another order, and would be taken by position: "
                f"put the {kind} of both in one order, or pass an array"
            )


def _numbers(column: Any, what: str, name: str) -> NDArray[Any]:
    found = _of_polars(column) if hasattr(column, "null_count") else _of_pandas(column)
    if found is None:
        raise DataError(
            f"{what} must hold numbers; column{name} has dtype {column.dtype}. A flow's draws are "
            "continuous: turn the column into floating numbers, or leave it out. "
            "plmcmc.FlowImputer fills columns of every kind"
        )
    return found


def _of_pandas(column: Any) -> NDArray[Any] | None:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    kind = column.dtype
    if is_bool_dtype(kind) or not is_numeric_dtype(kind):
        return None
    if isinstance(kind, np.dtype):
        return column.to_numpy()
    # What else there is marks missing values in its own way.
    single = getattr(kind, "numpy_dtype", None) == np.float32
    return column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def _of_polars(column: Any) -> NDArray[Any] | None:
    import polars as pl

    if not column.dtype.is_numeric():
        return None
    if column.dtype.is_float() or (column.dtype.is_integer() and column.null_count() == 0):
        return column.to_numpy()
    return column.cast(pl.Float64).to_numpy()


def _is_lazy(table: Any) -> bool:
    return type(table).__name__ == "LazyFrame"


def _dimensions(table: Any) -> int:
    return len(getattr(table, "shape", ()))


def _only_numbers(labels: Iterable[Any] | None) -> bool:
    """Whether labels say no more than positions do."""
    # Of pandas' ranges; looking at every label of a million takes a while.
    start, step = (getattr(labels, name, None) for name in ("start", "step"))
    if labels is None or (start, step) == (0, 1):
        return True
    return all(
        isinstance(label, int | np.integer) and label == place for place, label in enumerate(labels)
    )


def _shuffled(ours: Iterable[Any] | None, theirs: Iterable[Any] | None) -> bool:
    if ours is None and theirs is None:
        return False
    ours, theirs = (None if labels is None else list(labels) for labels in (ours, theirs))
    # What is only numbered is in the order of its numbers.
    expected = list(range(len(theirs or ()))) if ours is None else ours
    found = list(range(len(expected))) if theirs is None else theirs
    return expected != found and len(expected) == len(found) and set(expected) == set(found)
