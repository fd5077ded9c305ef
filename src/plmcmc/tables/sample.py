"""Rows of files at random, in one pass: what is learned from may be larger than memory.

Every row is as likely as any other, whatever file it is in; the rows keep their order. The same
seed finds the same rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from plmcmc.chains import Progress, progress_bar
from plmcmc.tables.parquet import ParquetTable
from plmcmc.tables.parquet_rows import batches, without_rows
from plmcmc.tables.reading import (
    SEPARATORS,
    Table,
    check_alike,
    check_readable,
    check_rows,
    check_same,
    form_of,
)
from plmcmc.tables.records import Record, records
from plmcmc.tables.text import TextTable, empty, names_of_text, table_of_text

# Keeps these random numbers apart from those of the fit.
PURPOSE = 9
# Records of text between two looks at the progress.
OFTEN = 100_000
MEGABYTE = 2**20


class Sample(NamedTuple):
    """Some rows of files.

    Attributes:
        tables: one for each file of which there are any.
        rows: how many there are in the files.
    """

    tables: list[Table]
    rows: int


def sampled(
    paths: Sequence[Path],
    na_values: Sequence[str],
    rows: int,
    seed: int,
    exclude: Collection[str] = (),
) -> Sample:
    """Read so many rows of files of the same columns, at random; all, if there are no more.

    Columns to `exclude` may be of any type.

    Raises:
        ValueError: saying what is wrong with a file, and where.
    """
    forms = {form_of(path) for path in paths}
    if ".xlsx" in forms:
        raise ValueError(
            "expected CSV, TSV or Parquet files, which can be read row by row; got Excel files. "
            "Convert them, or leave out --rows"
        )
    for path in paths:
        check_readable(path)
    if ".parquet" in forms and len(forms) > 1:
        raise ValueError(
            "expected all files to be text, or all Parquet; got both. Convert some of them"
        )
    rng = np.random.default_rng([seed, PURPOSE])
    if ".parquet" in forms:
        found = _of_parquet(paths, na_values, rows, rng, exclude)
    else:
        found = _of_text(paths, na_values, rows, rng)
    check_rows(paths[0], found.rows)
    return found


def _of_parquet(
    paths: Sequence[Path],
    na_values: Sequence[str],
    rows: int,
    rng: np.random.Generator,
    exclude: Collection[str],
) -> Sample:
    looked = [without_rows(path, na_values) for path in paths]
    check_alike([table for table, _ in looked], exclude)
    counts = [count for _, count in looked]
    total = sum(counts)
    chosen = np.sort(rng.choice(total, min(rows, total), replace=False, shuffle=False))
    tables, first = [], 0
    with progress_bar("Reading rows", total) as report:
        for (table, count), path in zip(looked, paths, strict=True):
            own = chosen[(chosen >= first) & (chosen < first + count)] - first
            if len(own):
                tables.append(_taken(table, path, own, first, report))
            first += count
    return Sample(tables, total)


def _taken(
    table: ParquetTable, path: Path, chosen: np.ndarray, before: int, report: Progress
) -> Table:
    """Return these rows of a file."""
    kept, first = [], 0
    for batch in batches(path):
        stop = first + batch.num_rows
        own = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, stop)]
        if len(own):
            kept.append(batch.take(pa.array(own - first)))
        first = stop
        report(before + stop, "")
    found = pa.Table.from_batches(kept, table.table.schema).unify_dictionaries()
    return replace(table, table=found.combine_chunks(), numbers=chosen)


class _Kept(NamedTuple):
    """A record that may be in the sample; those of the largest keys go first."""

    key: float
    file: int
    record: Record


def _of_text(
    paths: Sequence[Path], na_values: Sequence[str], rows: int, rng: np.random.Generator
) -> Sample:
    heap: list[_Kept] = []
    heads: list[Record] = []
    total = read = 0
    size = sum(path.stat().st_size for path in paths)
    # Before the rows: of a file whose rows are not chosen nobody would look at the names again.
    _check_heads(paths)
    with progress_bar("Reading (MB)", size // MEGABYTE) as report:
        for number, path in enumerate(paths):
            for record in _checked(path, heads):
                # As by drawing without replacement: the rows with the smallest of random keys.
                key = -rng.random()
                if len(heap) < rows:
                    heapq.heappush(heap, _Kept(key, number, record))
                elif key > heap[0].key:
                    heapq.heapreplace(heap, _Kept(key, number, record))
                total += 1
                read += len(record.text)
                if total % OFTEN == 0:
                    report(read // MEGABYTE, f"{total} rows")
    tables: list[Table] = []
    for number, (path, head) in enumerate(zip(paths, heads, strict=True)):
        own = sorted(kept.record for kept in heap if kept.file == number)
        if own:
            tables.append(_of_records(path, head, own, na_values))
    return Sample(tables, total)


def _check_heads(paths: Sequence[Path]) -> None:
    """Refuse files of other columns than the first one's."""
    wanted: list[str] = []
    for path in paths:
        separator = SEPARATORS[form_of(path)]
        names = names_of_text(path, _head(path, records(path, separator)).text, separator)
        wanted = wanted or names
        check_same(paths[0], wanted, path, names)


def _head(path: Path, lines: Iterator[Record]) -> Record:
    """Return the first line of a file."""
    head = next(lines, None)
    if head is None:
        raise empty(path)
    return head


def _checked(path: Path, heads: list[Record]) -> Iterator[Record]:
    """Yield the rows of a file, and note its first line; refuse rows of another number of cells."""
    separator = SEPARATORS[form_of(path)]
    lines = records(path, separator)
    head = _head(path, lines)
    heads.append(head)
    for record in lines:
        if record.cells != head.cells:
            raise ValueError(
                f"{path}, line {record.line}: expected {head.cells} cells, as in the first line; "
                f"got {record.cells}. Quote cells that hold a {separator!r}"
            )
        yield record


def _of_records(
    path: Path, head: Record, own: Sequence[Record], na_values: Sequence[str]
) -> TextTable:
    """Return the table of some records, which know the lines that they stand at."""
    text = "".join(record.text.rstrip("\r\n") + "\n" for record in (head, *own))
    table = table_of_text(path, text, SEPARATORS[form_of(path)], na_values)
    words = replace(table.words, place=lambda row: f"line {own[row].line}")
    return replace(table, words=words)
