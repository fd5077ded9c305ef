"""Columns of NumPy, pandas and polars: their names, dtypes, holes and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError


def columns_of(table: Any) -> dict[str, Any]:
    """Return the columns by name; those of an array are named by their number."""
    if hasattr(table, "columns"):
        check_names(table)
        return {str(name): table[name] for name in table.columns}
    return {str(place): column for place, column in enumerate(np.asarray(table).T)}


def check_table(table: Any) -> None:
    """Refuse what is neither an array nor a frame; what NumPy can make an array of may be one."""
    # Some sparse matrices are mappings, too; scikit-learn refuses them by name.
    named = isinstance(table, str | bytes | Path | Mapping) and not hasattr(table, "shape")
    if table is None or named or _is_other_frame(table):
        raise DataError(
            f"expected an array, or a DataFrame of pandas or polars; got {type(table).__name__}. "
            f"Convert it, or read the file first"
        )
    if isinstance(table, np.ma.MaskedArray):
        # What is behind the mask would be taken for what was seen.
        raise DataError(
            "expected an array with NaN at missing values; got a masked array, whose mask other "
            "arrays do not have. Convert it with table.astype(float).filled(numpy.nan)"
        )
    columns = getattr(table, "columns", None)
    if columns is not None and len(columns) == 0:
        raise DataError("expected a table with columns; it has none. Include the columns to fill")


def check_numbers(table: Any) -> None:
    """Refuse an array with what is no number, by row and column."""
    found = np.asarray(table)
    if found.ndim != 2 or found.dtype.kind not in "OSU":
        return
    for row, column in np.ndindex(*found.shape):
        value = found[row, column]
        if isinstance(value, str) and not is_number(value):
            raise DataError(
                f"expected an array of numbers; row {row}, column {str(column)!r} holds "
                f"{str(value)!r}. Mark it missing with NaN, or give a DataFrame, whose columns may "
                f"hold text"
            )


def is_number(value: Any) -> bool:
    """Whether a value can be read as a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_other_frame(table: Any) -> bool:
    """Whether a table has columns, and is of a library that is not known, or lazy."""
    kind = type(table)
    if kind.__module__.startswith("polars"):
        return kind.__name__ == "LazyFrame"
    return hasattr(table, "columns") and not is_pandas(table)


def check_names(table: Any) -> None:
    """Refuse a table in which two columns have one name."""
    twice = repeated(map(str, table.columns))
    if twice:
        raise DataError(
            f"expected unique column names; these occur more than once: {twice}. Rename them"
        )


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that more than one column has."""
    return [name for name, count in Counter(names).items() if count > 1]


def dtype_of(values: Any) -> str:
    """Return the name of a column's dtype, in small letters."""
    return str(getattr(values, "dtype", "")).lower()


def holes_of(values: Any) -> NDArray[np.bool_]:
    """Return where a column has no value: None, NaN, NA or null."""
    import pandas as pd

    raw = values.to_numpy() if hasattr(values, "to_numpy") and not is_pandas(values) else values
    found = np.asarray(pd.isna(raw))
    if hasattr(values, "is_null"):
        # polars has nulls beside NaN.
        found = found | values.is_null().to_numpy()
    return found


def objects_of(values: Any) -> NDArray[Any]:
    """Return a column's values as Python has them, one by one."""
    return np.asarray(values, dtype=object)


def is_pandas(values: Any) -> bool:
    """Whether a table or a column is of pandas, or of a library that builds on it."""
    return any(kind.__module__.startswith("pandas") for kind in type(values).__mro__)
