"""Columns as codes, NaN at holes: numbers as they are, levels by their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError
from plmcmc.imputation.columns import dtype_of, holes_of, is_number, is_pandas, objects_of

Array = NDArray[np.float64]
# Of larger numbers differences and squares overflow.
LARGEST = 1e150
# Names of dtypes of NumPy, pandas, Arrow and polars, in small letters.
NUMERIC = re.compile(r"(float|double|u?int|bool|boolean)(8|16|32|64)?(\[pyarrow\])?")


def numbers_of(values: Any, name: str, kind: str) -> Array:
    """Return a column of numbers; refuse infinite ones, and fractions among integers."""
    codes = _stored_numbers(values)
    if codes is None:
        codes = _read_numbers(values, name)
    infinite = np.isinf(codes)
    if infinite.any():
        raise DataError(
            f"column {name!r}, row {int(infinite.argmax())}: expected a finite number; got "
            f"{codes[infinite][0]}. Mark it missing, or correct it"
        )
    large = np.abs(codes) > LARGEST
    if large.any():
        row = int(large.argmax())
        raise DataError(
            f"column {name!r}, row {row}: expected numbers up to {LARGEST:g}; got {codes[row]}. "
            f"Mark it missing, or give the column in other units"
        )
    if kind == "integer":
        _check_whole(codes, name)
    return codes


def _check_whole(codes: Array, name: str) -> None:
    broken = np.isfinite(codes) & (codes != np.round(codes))
    if broken.any():
        row = int(broken.argmax())
        raise DataError(
            f"column {name!r}, row {row}: expected an integer; got {codes[row]}. Round it, or fit "
            f"with types={{{name!r}: 'continuous'}}"
        )


def _stored_numbers(values: Any) -> Array | None:
    """Return a column that is stored as numbers, or None: an object for each takes long."""
    if not NUMERIC.fullmatch(dtype_of(values)):
        return None
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    if is_pandas(values):
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    if type(values).__module__.startswith("polars"):
        import polars as pl

        return values.cast(pl.Float64).to_numpy()
    return None


def _read_numbers(values: Any, name: str) -> Array:
    """Read a column of objects as numbers, one by one."""
    holes = holes_of(values)
    try:
        found = np.asarray(objects_of(values)[~holes], dtype=np.float64)
    except (TypeError, ValueError) as error:
        row = next(row for row in np.flatnonzero(~holes) if not is_number(objects_of(values)[row]))
        raise DataError(
            f"column {name!r}, row {row}: expected a number; got {objects_of(values)[row]!r}. Mark "
            f"it missing, or fit with types={{{name!r}: 'categorical'}}"
        ) from error
    codes = np.full(len(holes), np.nan)
    codes[~holes] = found
    return codes


def codes_of(values: Any, name: str, levels: Sequence[Any]) -> Array:
    """Return a column of levels by their places in `levels`; refuse one that is not there."""
    import pandas as pd

    holes, raw = holes_of(values), objects_of(values)
    codes = pd.Index(list(levels), dtype=object).get_indexer(pd.Index(raw, dtype=object))
    unseen = (codes < 0) & ~holes
    if unseen.any():
        row = int(unseen.argmax())
        raise DataError(
            f"column {name!r}, row {row}: expected one of the fitted table's values, "
            f"{list(levels)[:10]}; got {raw[row]!r}. Mark it missing, or fit to rows that have it"
        )
    return np.where(holes, np.nan, codes.astype(np.float64))
