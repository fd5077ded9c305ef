"""Columns of NumPy, pandas and polars: their names, dtypes, holes and values."""

from __future__ import annotations

from collections import Counter
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


def check_names(table: Any) -> None:
    """Refuse a table in which two columns have one name."""
    counted = Counter(str(name) for name in table.columns)
    twice = [name for name, count in counted.items() if count > 1]
    if twice:
        raise DataError(f"columns must have names of their own; these occur twice: {twice}")


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
    """Whether a table or a column is of pandas."""
    return type(values).__module__.startswith("pandas")
