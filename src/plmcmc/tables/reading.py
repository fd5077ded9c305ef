"""Files read as tables: what they are by their names, and whether their columns are the same."""

from __future__ import annotations

import gzip
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from plmcmc.disk import write_all
from plmcmc.tables.excel import ExcelTable, read_excel
from plmcmc.tables.kinds import listed
from plmcmc.tables.parquet import ParquetTable, check_types, read_parquet
from plmcmc.tables.text import TextTable, read_text

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".xlsx")

Table = TextTable | ParquetTable | ExcelTable


def suffix_of(path: Path) -> str:
    """Return the suffix that says what a file is: `.csv`, `.csv.gz`, `.tsv`, ..."""
    found = next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)
    if found is None:
        known = ", ".join("*" + suffix for suffix in SUFFIXES)
        raise ValueError(f"{path}: expected a file named {known}. Rename or convert it")
    return path.name[-len(found) :]


def form_of(path: Path) -> str:
    """Return `.csv`, `.tsv`, `.parquet` or `.xlsx`, compressed or not."""
    return suffix_of(path).lower().removesuffix(".gz")


def read_table(path: Path, na_values: Iterable[str] = ()) -> Table:
    """Read a table.

    Raises:
        ValueError: saying what is wrong with it, and where.
        OSError: if there is no such file.
    """
    form = form_of(path)
    check_readable(path)
    if form == ".parquet":
        table = read_parquet(path, na_values)
    elif form == ".xlsx":
        table = read_excel(path, na_values)
    else:
        table = read_text(path, SEPARATORS[form], na_values)
    check_rows(path, table.rows)
    return table


def check_rows(path: Path, rows: int) -> None:
    """Refuse a file of so many rows, if they are none."""
    if not rows:
        raise ValueError(
            f"{path}: expected rows of data; it has column names only. Add rows, or choose "
            "another file"
        )


def check_no_directory(path: Path) -> None:
    """Refuse a directory for a file, and say how to name what is in it."""
    if path.is_dir():
        inside = {s for own in path.iterdir() for s in SUFFIXES if own.name.lower().endswith(s)}
        files = path / f"*{next((s for s in SUFFIXES if s in inside), '.parquet')}"
        raise IsADirectoryError(
            f"{path}: expected a file; this is a directory. Name the files in it, such as {files}"
        )


def check_readable(path: Path) -> None:
    """Refuse what is no file, or may not be read."""
    check_no_directory(path)
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{path}: expected a regular file; this is a pipe or a device. Save its contents to a "
            "file first"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file; it does not exist. Correct the name")
    if not os.access(path, os.R_OK):
        raise PermissionError(
            f"{path}: expected a readable file; permission was denied. Change its permissions"
        )


def read_tables(
    paths: Sequence[Path], na_values: Sequence[str], exclude: Collection[str] = ()
) -> list[Table]:
    """Read tables of the same columns; those to `exclude` may be of any type."""
    tables = [read_table(path, na_values) for path in paths]
    check_alike(tables, exclude)
    return tables


def check_alike(tables: Sequence[Table], exclude: Collection[str] = ()) -> None:
    """Refuse tables of other columns, forms or types than the first one's."""
    first = tables[0]
    for table in tables[1:]:
        if type(table) is not type(first):
            raise ValueError(
                f"{first.path} and {table.path}: expected all files to be text, all Parquet or "
                "all Excel. Convert one of them"
            )
        check_same(first.path, first.names, table.path, table.names)
        if isinstance(table, ParquetTable) and isinstance(first, ParquetTable):
            check_types(first, table, exclude)


def check_same(
    wanted_by: object,
    wanted: Sequence[str],
    path: Path,
    names: Sequence[str],
    *,
    more: bool = False,
) -> None:
    """Refuse a file without the columns that are wanted, or with others unless `more` may be."""
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    if missing or (extra and not more):
        raise ValueError(
            f"{path}: expected the columns of {wanted_by}; missing: {listed(missing)}; unknown: "
            f"{listed(extra)}. Rename, add or remove columns"
        )


def write_files(files: Iterable[tuple[Path, bytes]]) -> None:
    """Write files, each whole or not at all, and none before all are ready to take their places."""
    write_all({place: _packed(place, content) for place, content in files})


def _packed(place: Path, content: bytes) -> bytes:
    return gzip.compress(content, mtime=0) if place.name.lower().endswith(".gz") else content
