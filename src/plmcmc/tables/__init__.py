"""In: files. Out: tables; and, with their holes filled, files again."""

from plmcmc.tables.reading import (
    Table,
    check_no_directory,
    check_readable,
    form_of,
    read_table,
    read_tables,
    write_files,
)

__all__ = [
    "Table",
    "check_no_directory",
    "check_readable",
    "form_of",
    "read_table",
    "read_tables",
    "write_files",
]
