"""Parquet files: read, and written with nothing but their holes changed."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plmcmc.cli.tables.kinds import Flag, Kinds, check_names, numbers_of
from plmcmc.imputation.reading import LARGEST

# What a column of Parquet must be stored as to hold a kind; other kinds fit anywhere.
STORED: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "continuous": (pa.types.is_floating, pa.types.is_null),
    "integer": (pa.types.is_integer, pa.types.is_floating, pa.types.is_null),
    "boolean": (pa.types.is_boolean, pa.types.is_null),
}
_NULLABLE = {
    getattr(pa, name.lower())(): getattr(pd, name + "Dtype")()
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
} | {pa.bool_(): pd.BooleanDtype()}


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file.

    Attributes:
        path: where it was read.
        table: its content.
        markers: words and numbers that mark a hole, beside nulls.
    """

    path: Path
    table: pa.Table
    markers: frozenset[str]

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return self.table.column_names

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.table.num_rows

    def series(self, name: str) -> pd.Series:
        """Return a column, whole numbers and booleans nullable."""
        column = self.table.column(name)
        values = column.to_pandas(types_mapper=_NULLABLE.get)
        if self.markers and column.type in (pa.string(), pa.large_string()):
            values = values.mask(values.isin(self.markers))
        numbers = numbers_of(self.markers)
        if numbers and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            values = values.mask(values.isin(numbers))
        return values

    def holes(self, name: str) -> int:
        """Return how many cells of a column are missing."""
        return int(self.missing(name).sum())

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return which cells of a column are missing."""
        return self.series(name).isna().to_numpy()

    def place(self, row: int) -> str:
        """Return where a row is, in words."""
        return f"row {row + 1}"

    def frame(self, known: Kinds) -> pd.DataFrame:
        """Return these columns.

        Raises:
            ValueError: naming a column whose type cannot hold its kind, or a number that is not.
        """
        for name, kind in known.kinds.items():
            stored = self.table.schema.field(name).type
            if kind in STORED and not any(fits(stored) for fits in STORED[kind]):
                raise ValueError(
                    f"{self.path}, column {name!r}: expected {kind} values; the file stores "
                    f"{stored}. Convert the column, or say with --types what it is"
                )
            if kind in ("continuous", "integer"):
                self._check_numbers(name, kind)
        return pd.DataFrame({name: self.series(name) for name in known.kinds})

    def filled(self, known: Kinds, frame: pd.DataFrame, flag: Flag | None = None) -> bytes:
        """Return the file with columns of a frame in place of those that had holes.

        Args:
            known: the columns.
            frame: their values.
            flag: a last column to add.
        """
        table = self.table
        for name in known.kinds:
            if self.holes(name):
                place = table.column_names.index(name)
                field = table.schema.field(place)
                found = _stored(frame[name].array, field.type)
                table = table.set_column(place, field.with_type(found.type), found)
        if flag is not None:
            table = table.append_column(flag.name, pa.array(flag.rows, pa.bool_()))
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        return buffer.getvalue()

    def _check_numbers(self, name: str, kind: str) -> None:
        values = self.series(name).to_numpy(dtype=np.float64, na_value=np.nan)
        bad = {
            "a finite number": np.isinf(values),
            f"a number up to {LARGEST:g}": np.abs(values) > LARGEST,
            "an integer": (kind == "integer") & ~np.isnan(values) & (values != np.round(values)),
        }
        for expected, found in bad.items():
            if not found.any():
                continue
            row = int(found.argmax())
            raise ValueError(
                f"{self.path}, {self.place(row)}, column {name!r}: expected {expected}; got "
                f"{values[row]}. Correct it, or leave it empty"
            )


def read_parquet(path: Path, na_values: Iterable[str] = ()) -> ParquetTable:
    """Read a file of Parquet; `na_values` mark holes.

    Raises:
        ValueError: if it is none.
    """
    if path.stat().st_size == 0:
        raise ValueError(
            f"{path}: expected a Parquet file; it is empty. Choose another, or write it again"
        )
    try:
        # Not read_table, which would make columns of the names of directories.
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path}: expected a Parquet file, and whole; it cannot be read: {reason} Write it "
            f"again"
        ) from None
    check_names(path, table.column_names)
    return ParquetTable(path, table, frozenset(na_values))


def check_types(first: ParquetTable, other: ParquetTable) -> None:
    """Refuse a file whose columns are stored as other types than the first file's."""
    for field in first.table.schema:
        found = other.table.schema.field(field.name).type
        if found != field.type and not pa.types.is_dictionary(found):
            raise ValueError(
                f"{other.path}, column {field.name!r}: expected {field.type}, as in {first.path}; "
                f"the file stores {found}. Convert one"
            )


def _stored(values: Any, kind: Any) -> Any:
    found = pa.array(values, from_pandas=True)
    if pa.types.is_null(kind):
        # A file without a single value had no type to keep.
        return found
    if pa.types.is_dictionary(kind):
        # No cast leads from one width of codes to another.
        codes = found.indices.cast(kind.index_type)
        words = found.dictionary.cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(codes, words, ordered=kind.ordered)
    return found.cast(kind)
