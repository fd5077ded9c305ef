"""Copies of tables with their holes filled, each column stored as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError
from plmcmc.imputation.columns import dtype_of, is_pandas
from plmcmc.imputation.kinds import INTEGER

# What to put in: which rows have a hole, and their values, in order.
Filled = tuple[NDArray[np.bool_], Any]


def filled_array(table: Any, filled: Mapping[int, Filled]) -> NDArray[Any]:
    """Return a copy of an array with the holes of these columns filled."""
    copy = np.array(table)
    for place, (holes, found) in filled.items():
        copy[holes, place] = found
    return copy


def filled_frame(table: Any, filled: Mapping[str, Filled]) -> Any:
    """Return a copy of a frame with the holes of these columns filled.

    Raises:
        DataError: naming a column whose dtype cannot hold what it is filled with.
    """
    replaced = _replaced_pandas if is_pandas(table) else _replaced_polars
    columns = {}
    for label in table.columns:
        if str(label) in filled:
            holes, found = filled[str(label)]
            try:
                columns[label] = replaced(table[label], holes, found)
            except (TypeError, ValueError, OverflowError, ArithmeticError) as problem:
                raise DataError(
                    f"column {str(label)!r} is stored as {dtype_of(table[label])}, which cannot "
                    f"hold the values to fill in: {problem}"
                ) from problem
    if not is_pandas(table):
        return table.with_columns(list(columns.values()))
    copy = table.copy()
    for label, column in columns.items():
        copy[label] = column
    return copy


def _within(found: Any, values: Any) -> Any:
    """Return integers with a float's 2**63 as 2**63 - 1, which was the largest before rounding."""
    stored = INTEGER.fullmatch(dtype_of(values))
    if stored is None:
        return found
    largest = int(np.iinfo(stored[0].removesuffix("[pyarrow]")).max)
    return [largest if value == float(largest) else value for value in found]


def _replaced_pandas(values: Any, holes: NDArray[np.bool_], found: Any) -> Any:
    import pandas as pd

    column = values.copy()
    column[holes] = pd.array(_within(found, column), dtype=column.dtype)
    return column


def _replaced_polars(values: Any, holes: NDArray[np.bool_], found: Any) -> Any:
    import polars as pl

    try:
        # Lists of integers would be taken for 64 bits with a sign.
        wanted = values.dtype if values.dtype.is_integer() else None
        found = list(_within(found, values))
        new = pl.Series(values.name, found, dtype=wanted).cast(values.dtype)
    except pl.exceptions.PolarsError as problem:
        raise ValueError(str(problem)) from problem
    return values.clone().scatter(np.flatnonzero(holes), new)
