"""Parts of a file put together, some at a time: the file may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from plmcmc.disk import hash_of, writing
from plmcmc.distributed.work_plan import Line, Order, Source
from plmcmc.tables.parquet import damage_in_words, opened

# Bytes of a group of rows, about: they are read and packed together.
GROUP_BYTES = 2**26


class DamagedError(Exception):
    """A part is not what was kept."""


class Kept(NamedTuple):
    """A part that is done: where it is, and its hash when it was kept."""

    path: Path
    digest: str


def join(order: Order, source: Source, told: Mapping[int, Line]) -> None:
    """Write a file of which all parts are done, once for each draw.

    Args:
        order: says where parts are kept.
        source: the file.
        told: of each part, by number.

    Raises:
        DamagedError: if a part is no longer what was kept.
    """
    for draw, place in enumerate(source.places):
        parts = [_kept(order, source, told, number)[draw] for number in range(source.part_count)]
        _write(place, parts, source.path, order.flag)


def damaged(order: Order, source: Source, told: Mapping[int, Line]) -> list[int]:
    """Return the numbers of parts that are not what was kept."""
    return [
        number
        for number in range(source.part_count)
        if not all(_is_whole(part) for part in _kept(order, source, told, number))
    ]


def remove_parts(order: Order, source: Source) -> None:
    """Remove the parts of a file that is written."""
    for number in range(source.part_count):
        for place in order.places(source.number, number):
            with suppress(FileNotFoundError):
                place.unlink()


def _kept(order: Order, source: Source, told: Mapping[int, Line], number: int) -> list[Kept]:
    """Return a part, once for each draw."""
    places = order.places(source.number, number)
    return [Kept(*own) for own in zip(places, told[number]["kept"], strict=True)]


def _is_whole(part: Kept) -> bool:
    return part.path.exists() and hash_of(part.path) == part.digest


def _write(place: Path, parts: Sequence[Kept], original: Path, flag: str | None) -> None:
    schema = _read(parts[0]).schema if parts else _schema_of(original, flag)
    with writing(place) as file, pq.ParquetWriter(file, schema) as writer:
        for group in _groups(parts):
            writer.write_table(group.cast(schema))


def _groups(parts: Sequence[Kept]) -> Iterator[pa.Table]:
    """Yield parts as groups of rows."""
    waiting, size = [], 0
    for part in parts:
        table = _read(part)
        waiting.append(table)
        size += table.nbytes
        if size >= GROUP_BYTES:
            yield _together(waiting)
            waiting, size = [], 0
    if waiting:
        yield _together(waiting)


def _read(part: Kept) -> pa.Table:
    """Read a part, if it is what was kept: after a power cut there may be less of it."""
    if not _is_whole(part):
        raise DamagedError(f"{part.path} is damaged")
    with pq.ParquetFile(part.path) as file:
        return file.read()


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries()


def _schema_of(original: Path, flag: str | None) -> pa.Schema:
    """Return the columns of a file without rows, of which there are no parts."""
    with damage_in_words(original), opened(original) as file:
        schema = file.schema_arrow
    return schema if flag is None else schema.append(pa.field(flag, pa.bool_()))
