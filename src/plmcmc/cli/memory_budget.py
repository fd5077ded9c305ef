"""Are files too large to be read whole? How many of their rows to read then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from plmcmc.cli.machine import memory
from plmcmc.tables import form_of
from plmcmc.tables.parquet import damage_in_words

# Ten times as many as a flow is trained on: the others tell what each column's values are.
ROWS = 200_000
# Of the memory there is, the rest is for what is made of the tables.
SHARE = 0.5
# Bytes that a table takes for each of its file's: of text, cells are strings, with and without
# their quotes; of Parquet, there are frames, codes and scores beside what is stored.
TEXT, PACKED, STORED = 12, 50, 6
NUMBER = 8


def rows_to_read(paths: Sequence[Path], processes: int = 1) -> int | None:
    """Return how many rows to read of files that would not fit into memory; None for all.

    Args:
        paths: the files.
        processes: how many of this machine read them, each for itself.
    """
    total, _ = memory()
    if total is None or processes * sum(map(_taken, paths)) < SHARE * total:
        return None
    return ROWS


def _taken(path: Path) -> int:
    """Return how many bytes of memory a table would take, about; 0 of what will be refused."""
    form = form_of(path)
    if not path.is_file() or form == ".xlsx":
        return 0
    size = path.stat().st_size
    if form != ".parquet":
        return size * (PACKED if path.name.lower().endswith(".gz") else TEXT)
    if not size:
        return 0
    with damage_in_words(path), pq.ParquetFile(path) as file:
        stored = file.metadata
        groups = (stored.row_group(number) for number in range(stored.num_row_groups))
        unpacked = sum(group.total_byte_size for group in groups)
        return STORED * max(unpacked, stored.num_rows * stored.num_columns * NUMBER)
