"""Parquet files: read, and written with nothing but their holes changed."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plmcmc.imputation.reading import LARGEST
from plmcmc.storage.strict_json import shown
from plmcmc.tables.kinds import Flag, Kinds, check_names, numbers_of

# What a column of Parquet must be stored as to hold a kind; other kinds fit anywhere.
STORED: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "continuous": (pa.types.is_floating, pa.types.is_null),
    "integer": (pa.types.is_integer, pa.types.is_floating, pa.types.is_null),
    "boolean": (pa.types.is_boolean, pa.types.is_null),
}
# Bytes that are read at once of each column.
BUFFER = 2**18
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
        first: rows of the file that come before these.
        numbers: which rows of the file these are, if they do not follow each other.
    """

    path: Path
    table: pa.Table
    markers: frozenset[str]
    first: int = 0
    numbers: NDArray[np.int64] | None = None

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
        numbers = numbers_of(self.markers)
        if pa.types.is_dictionary(column.type):
            # What marks a hole is no level either.
            marks = [v for v in values.cat.categories if v in self.markers or v in numbers]
            return values.cat.remove_categories(marks)
        if self.markers and column.type in (pa.string(), pa.large_string(), pa.string_view()):
            values = values.mask(values.isin(self.markers))
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
        found = self.first + row if self.numbers is None else int(self.numbers[row])
        return f"row {found + 1}"

    def frame(self, known: Kinds) -> pd.DataFrame:
        """Return these columns.

        Raises:
            ValueError: naming a column whose type cannot hold its kind, or a number that is not.
        """
        for name, kind in known.kinds.items():
            stored = self.table.schema.field(name).type
            if kind in STORED and not any(fits(stored) for fits in STORED[kind]):
                raise ValueError(
                    f"{self.path}, column {shown(name)}: expected {kind} values; the file stores "
                    f"{stored}. Convert the column, or, without a --model, declare its kind with "
                    "--types"
                )
            if kind in ("continuous", "integer"):
                self._check_numbers(name, kind)
        return pd.DataFrame(
            {name: _with_levels(self.series(name), known.levels.get(name)) for name in known.kinds}
        )

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
                f"{self.path}, {self.place(row)}, column {shown(name)}: expected {expected}; got "
                f"{values[row]}. Correct it, or leave it empty"
            )


def read_parquet(path: Path, na_values: Iterable[str] = ()) -> ParquetTable:
    """Read a file of Parquet; `na_values` mark holes.

    Raises:
        ValueError: if it is none.
    """
    check_not_empty(path)
    with damage_in_words(path):
        # Not read_table, which would make columns of the names of directories.
        with opened(path) as file:
            table = file.read()
        # Words that are no UTF-8, and places outside of what is there, would be found much later.
        table.validate(full=True)
    check_names(path, table.column_names)
    return ParquetTable(path, table, frozenset(na_values))


def check_not_empty(path: Path) -> None:
    """Refuse a file of no bytes."""
    if path.stat().st_size == 0:
        raise ValueError(
            f"{path}: expected a Parquet file; it is empty. Choose another file, or write it again"
        )


def opened(path: Path) -> pq.ParquetFile:
    """Open a file; if it has checksums, they are looked at."""
    return pq.ParquetFile(
        path,
        page_checksum_verification=True,
        # Spark's dates of 96 bits: counted in nanoseconds, the year 9999 would become 1816.
        coerce_int96_timestamp_unit="us",
        # Page by page: of a group of rows, all that is packed would be in memory before its first.
        pre_buffer=False,
        buffer_size=BUFFER,
    )


@contextmanager
def damage_in_words(path: Path) -> Iterator[None]:
    """Refuse what is no Parquet, or no longer."""
    try:
        yield
    except MemoryError:
        # Arrow's own is an ArrowException, too; and the file may be whole.
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{path}: expected a complete Parquet file; it cannot be read: {reason} Write it again"
        ) from None


def check_types(first: ParquetTable, other: ParquetTable, exclude: Collection[str] = ()) -> None:
    """Refuse a file whose columns are stored as other types than the first file's.

    A column without a single value has no type to differ; of those to `exclude` none is used.
    """
    for field in first.table.schema:
        found = other.table.schema.field(field.name).type
        if field.name in exclude or pa.types.is_null(found) or pa.types.is_null(field.type):
            continue
        if found != field.type and not pa.types.is_dictionary(found):
            raise ValueError(
                f"{other.path}, column {shown(field.name)}: expected {field.type}, as in "
                f"{first.path}; the file stores {found}. Convert one of them"
            )


def _with_levels(values: pd.Series, levels: Sequence[Any] | None) -> pd.Series:
    """Let a column of categories take levels that the model knows and the file has not declared."""
    if levels is None or not isinstance(values.dtype, pd.CategoricalDtype):
        return values
    there = set(values.cat.categories)
    return values.cat.add_categories([level for level in levels if level not in there])


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
