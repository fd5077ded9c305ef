"""Column means: what any imputer has to beat."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.data.incomplete import DataError, checked

Table = NDArray[np.float64]


class Units(NamedTuple):
    """Mean and deviation of what is seen of each column, `(columns,)`."""

    centre: Table
    spread: Table


class MeanImputer:
    """Fills missing values with the mean of the observed values of their column.

    Example:
        >>> MeanImputer().fill([[1.0, 2.0], [3.0, float("nan")], [float("nan"), 6.0]])
        array([[1., 2.],
               [3., 4.],
               [2., 6.]])
    """

    def fill(self, x: Any) -> Table:
        """Return `x` with its NaN replaced by its own columns' means."""
        values, seen = checked_table(x)
        return np.where(seen, values, column_means(values, seen))


def checked_table(x: Any) -> tuple[Table, NDArray[np.bool_]]:
    """Return the table in float64 and where it is seen, or raise `DataError`.

    Integers are taken as numbers; pandas' missing values are holes, as NaN is.
    """
    values, seen = checked(_numbers(x))
    if values.ndim != 2:
        raise DataError(f"x must be a table, shape (rows, columns); got shape {values.shape}")
    return values.astype(np.float64), seen


def column_means(values: Table, seen: NDArray[np.bool_]) -> Table:
    """Return the means of what is seen, or raise `DataError` where a column has nothing."""
    empty = np.flatnonzero(~seen.any(axis=0))
    if empty.size:
        raise DataError(f"column {empty[0]} has no observed values: leave it out")
    return values.mean(axis=0, where=seen)


def column_units(values: Table, seen: NDArray[np.bool_]) -> Units:
    """Return what columns are standardised by: 1 for the deviation of one that is constant."""
    centre = column_means(values, seen)
    spread = np.sqrt(np.mean((values - centre) ** 2, 0, where=seen))
    # Around its mean a constant column may have a deviation from rounding alone.
    return Units(centre, np.where(spread > 1e-12 * np.abs(centre), spread, 1.0))


def _numbers(x: Any) -> Any:
    """Return a pandas table of numbers as an array, and integers as floats; all else as it is."""
    if hasattr(x, "iloc") and hasattr(x, "dtypes"):
        for name, kind in x.dtypes.items():
            if kind.kind not in "fiu":
                raise DataError(
                    f"column {name!r} is categorical ({kind}); this imputer takes numbers only: "
                    f"leave the column out, or turn it into numbers if its order has a meaning"
                )
        return x.to_numpy(dtype=np.float64, na_value=np.nan)
    kind = getattr(x, "dtype", None)
    return x.astype(np.float64) if isinstance(kind, np.dtype) and kind.kind in "iu" else x
