"""Some rows of a Parquet file at a time: files may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from plmcmc.tables.kinds import check_names
from plmcmc.tables.parquet import ParquetTable, damage_in_words, opened

# Rows that are unpacked at once.
AT_ONCE = 16_384


def without_rows(path: Path, na_values: Iterable[str] = ()) -> tuple[ParquetTable, int]:
    """Return a file's columns without any of their rows, and how many rows there are.

    Raises:
        ValueError: if it is no Parquet.
    """
    if path.stat().st_size == 0:
        raise ValueError(
            f"{path}: expected a Parquet file; it is empty. Choose another file, or write it again"
        )
    with damage_in_words(path), opened(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    check_names(path, schema.names)
    return ParquetTable(path, schema.empty_table(), frozenset(na_values)), rows


class RowReader:
    """Reads rows of files, some at a time.

    Rows that follow those before are read on from there: to find some within a group, all before
    them are unpacked, and to begin anew for each few would take the square of the group's rows.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._position = 0
        self._file: pq.ParquetFile | None = None
        self._coming: Iterator[_Batch] = iter(())
        self._held: _Batch | None = None

    def read(self, path: Path, rows: slice, na_values: Iterable[str] = ()) -> ParquetTable:
        """Read rows `start` to `stop` (excluded), and no more than a batch beside them.

        Raises:
            ValueError: if the file is damaged.
        """
        with damage_in_words(path):
            try:
                table = self._read(path, rows)
            except BaseException:
                self.close()
                raise
        return ParquetTable(path, table, frozenset(na_values), rows.start)

    def close(self) -> None:
        """Let go of the file that was read last."""
        if self._file is not None:
            self._file.close()
        self._path = self._file = self._held = None
        self._coming = iter(())

    def _read(self, path: Path, rows: slice) -> pa.Table:
        file = self._file
        if file is None or path != self._path:
            self.close()
            file = self._file = opened(path)
            self._path, self._position = path, -1
        group, first = _group_of(file, rows.start)
        if not first <= self._position <= rows.start:
            self._coming, self._held = _from_group(file, group, first), None
        found = list(self._overlapping(rows))
        self._position = rows.stop
        return pa.Table.from_batches(found, file.schema_arrow).unify_dictionaries()

    def _overlapping(self, rows: slice) -> Iterator[pa.RecordBatch]:
        """Yield what lies within `rows`, and hold the batch in which they end."""
        while held := self._held or next(self._coming, None):
            start = max(rows.start - held.first, 0)
            stop = min(rows.stop - held.first, held.rows.num_rows)
            if start < stop:
                yield held.rows.slice(start, stop - start)
            ends_here = held.first + held.rows.num_rows >= rows.stop
            self._held = held if ends_here else None
            if ends_here:
                return


class _Batch(NamedTuple):
    """Rows that were unpacked together, and which is the first."""

    first: int
    rows: pa.RecordBatch


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows, some at a time."""
    with damage_in_words(path), opened(path) as file:
        yield from file.iter_batches(AT_ONCE)


def _group_of(file: pq.ParquetFile, row: int) -> tuple[int, int]:
    """Return the group that a row is in, and the group's first row."""
    first, groups = 0, file.metadata.num_row_groups
    for number in range(groups):
        stop = first + file.metadata.row_group(number).num_rows
        if row < stop:
            return number, first
        first = stop
    return groups, first


def _from_group(file: pq.ParquetFile, group: int, first: int) -> Iterator[_Batch]:
    """Yield rows from a group's first on; no batch has rows of two groups."""
    for number in range(group, file.metadata.num_row_groups):
        for batch in file.iter_batches(AT_ONCE, row_groups=[number]):
            yield _Batch(first, batch)
            first += batch.num_rows
