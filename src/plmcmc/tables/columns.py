"""What each column of a table is: one to learn from and to fill, or one to leave as it is."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from plmcmc.data.schema import KINDS
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.kinds import DISTINCT, MANY, MOST_LEVELS
from plmcmc.storage.strict_json import parsed, shown
from plmcmc.tables.cells import Words
from plmcmc.tables.kinds import NUMBER, Kinds, listed
from plmcmc.tables.parquet import ParquetTable
from plmcmc.tables.reading import Table, check_readable, check_same

# As spreadsheets write them; others are read by the standard library.
DATE = re.compile(r"\d{1,4}([/.-])\d{1,2}\1\d{1,4}([ T]\d{1,2}:.*)?")
MOSTLY = 0.95
FREE_TEXT = 50
WHOLE = re.compile(r"[+-]?\d+")
# So pandas writes whole numbers of a column with holes.
WHOLE_AS_FLOAT = re.compile(r"[+-]?\d+\.0*")
COMMA = re.compile(r"[+-]?\d+,\d+")
# 007 is a code: as a number it would be 7.
CODE = re.compile(r"[+-]?0\d+")


class Plan(NamedTuple):
    """What to do with each column.

    Attributes:
        known: the columns to learn from and to fill.
        passed: the others, and why they are left as they are.
    """

    known: Kinds
    passed: dict[str, str]


class PassThrough(NamedTuple):
    """Why a column is left as it is."""

    reason: str


def plan_of_tables(tables: Sequence[Table], arguments: Namespace) -> Plan:
    """Decide what each column is, from all tables together."""
    types = _types(arguments.types)
    names = tables[0].names
    for option, named in (("--exclude", arguments.exclude), ("--types", types)):
        unknown = [name for name in named if name not in names]
        if unknown:
            raise ValueError(
                f"{option}: expected columns of the table, {listed(names)}; got {listed(unknown)}. "
                f"Correct them"
            )
    kinds, passed, levels = {}, {}, {}
    for name in names:
        empty = all(table.holes(name) == table.rows for table in tables)
        if name in arguments.exclude:
            found = PassThrough("excluded")
        elif empty:
            _check_not_wanted(types, name, tables)
            found = PassThrough("no values to learn from")
        else:
            found = types.get(name) or _decided(tables, name)
        if isinstance(found, PassThrough):
            passed[name] = found.reason
        else:
            kinds[name], levels[name] = found, _numbered_levels(tables, name, found)
    return Plan(Kinds(kinds, levels), passed)


def plan_of_model(imputer: FlowImputer, tables: Sequence[Table]) -> Plan:
    """Take the model's columns; others pass through."""
    layout = imputer.layout_
    for table in tables:
        check_same("the model", layout.names, table.path, table.names, more=True)
    known = Kinds(
        dict(zip(layout.names, layout.kinds, strict=True)),
        dict(zip(layout.names, layout.levels, strict=True)),
    )
    others = [name for name in tables[0].names if name not in layout.names]
    return Plan(known, dict.fromkeys(others, "not in the model"))


def check_levels(known: Kinds, table: Table, frame: pd.DataFrame) -> None:
    """Refuse a level that a model has not seen.

    Raises:
        ValueError: naming where it stands, and what the model knows.
    """
    for name, levels in known.levels.items():
        if levels is None:
            continue
        unseen = ~(frame[name].isin(levels) | frame[name].isna()).to_numpy()
        if unseen.any():
            row = int(unseen.argmax())
            raise ValueError(
                f"{table.path}, {table.place(row)}, column {shown(name)}: expected one of the "
                f"model's values, {listed(levels)}; got {shown(frame[name].iloc[row])}. Correct "
                f"it, mark it missing with --na-values, or fit a model to rows that have it"
            )


def _check_not_wanted(types: Mapping[str, str], name: str, tables: Sequence[Table]) -> None:
    if name in types:
        raise ValueError(
            f"{tables[0].path}, column {shown(name)}: expected values to learn from, as --types "
            f"declares it {types[name]}; all are missing. Remove it from --types, and the column "
            "passes through"
        )


def _types(path: str | None) -> dict[str, str]:
    """Read kinds of columns by name."""
    if path is None:
        return {}
    check_readable(Path(path))
    try:
        types = parsed(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(
            f'{path}: expected JSON, such as {{"age": "integer"}}; it cannot be read: {error}. '
            f"Correct it"
        ) from None
    if not hasattr(types, "items"):
        raise ValueError(
            f'{path}: expected column names with their kinds, such as {{"age": "integer"}}; got '
            f"{type(types).__name__}. Write a JSON object"
        )
    for name, kind in types.items():
        if kind not in KINDS:
            raise ValueError(
                f"{path}: expected the kind of {shown(name)} to be one of {', '.join(KINDS)}; got "
                f"{shown(kind)}. Choose one"
            )
    return types


def _decided(tables: Sequence[Table], name: str) -> str | PassThrough:
    texts = _worded(tables)
    if texts:
        return _decided_text(texts, name)
    return _decided_stored([table for table in tables if isinstance(table, ParquetTable)], name)


def _worded(tables: Sequence[Table]) -> list[Words]:
    """Return the words of tables that have them."""
    return [table.words for table in tables if not isinstance(table, ParquetTable)]


def _decided_text(tables: Sequence[Words], name: str) -> str | PassThrough:
    columns = [table.of(name) for table in tables]
    words = [word.strip() for column in columns for word in column if word is not None]
    numbers = [NUMBER.fullmatch(word) is not None for word in words]
    if any(CODE.fullmatch(word) for word in words):
        return _decided_words(columns)
    if not all(numbers):
        if sum(numbers) >= MOSTLY * len(words):
            _refuse_text(tables, name)
        commas = [COMMA.fullmatch(word) is not None for word in words]
        if any(commas) and sum(numbers) + sum(commas) >= MOSTLY * len(words):
            _refuse_commas(tables, name)
        return _decided_words(columns)
    if all(WHOLE.fullmatch(word) for word in words):
        return PassThrough("identifier") if _distinct(columns) else "integer"
    return "integer" if all(WHOLE_AS_FLOAT.fullmatch(word) for word in words) else "continuous"


def _decided_stored(tables: Sequence[ParquetTable], name: str) -> str | PassThrough:
    types: list[Any] = [table.table.schema.field(name).type for table in tables]
    # A file without a single value here does not say what the column is.
    kind = next((own for own in types if not pa.types.is_null(own)), types[0])
    columns = [table.series(name) for table in tables]
    if re.fullmatch(r"__index_level_\d+__", name):
        return PassThrough("index")
    if pa.types.is_temporal(kind):
        return PassThrough("dates")
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_floating(kind):
        return "continuous"
    lists = [[None if pd.isna(v) else v for v in c] for c in columns] if _plain(kind) else []
    if pa.types.is_integer(kind):
        return PassThrough("identifier") if _distinct(lists) else "integer"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _decided_words(lists)
    if pa.types.is_dictionary(kind) and _plain(kind.value_type):
        if kind.ordered:
            return "ordinal"
        distinct = len(set().union(*(column.dropna() for column in columns)))
        return "categorical" if distinct <= MOST_LEVELS else _too_many(distinct)
    return PassThrough(f"of type {kind}")


def _plain(kind: Any) -> bool:
    return any(
        test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)
    )


def _decided_words(columns: Sequence[Sequence[str | None]]) -> str | PassThrough:
    words = [word for column in columns for word in column if word is not None]
    if sum(map(_is_date, words)) >= MOSTLY * len(words):
        return PassThrough("dates")
    if _distinct(columns):
        return PassThrough("identifier")
    distinct = len(set(words))
    if distinct > max(FREE_TEXT, sum(map(len, columns)) / 2):
        return PassThrough("free text")
    if len(words) >= MANY and distinct > DISTINCT * len(words):
        return PassThrough("free text")
    return "categorical" if distinct <= MOST_LEVELS else _too_many(distinct)


def _too_many(distinct: int) -> PassThrough:
    return PassThrough(f"{distinct} different values; at most {MOST_LEVELS} can be learned")


def _refuse_text(tables: Sequence[Words], name: str) -> None:
    """Say where the few words are that keep a column from being numbers."""
    at, word = _first(tables, name, lambda word: not NUMBER.fullmatch(word))
    raise ValueError(
        f"{at}: expected a number, like nearly all values of this column; got {shown(word)}. "
        "Correct it, mark it missing with --na-values, or declare the column categorical with "
        "--types"
    )


def _refuse_commas(tables: Sequence[Words], name: str) -> None:
    """Say where a number has a comma: taken as a word, it would be told apart, not measured."""
    at, word = _first(tables, name, lambda word: COMMA.fullmatch(word) is not None)
    raise ValueError(
        f"{at}: expected numbers with a decimal point and no commas; got {shown(word)}. Rewrite "
        "them, or declare the column categorical with --types"
    )


def _first(tables: Sequence[Words], name: str, found: Callable[[str], bool]) -> tuple[str, str]:
    """Return where the first word stands of which something is true, and the word."""
    return next(
        (f"{table.path}, {table.place(row)}, column {shown(name)}", word)
        for table in tables
        for row, word in enumerate(table.of(name))
        if word is not None and found(word.strip())
    )


def _distinct(columns: Sequence[Sequence[Any]]) -> bool:
    """Whether no file has a hole or a value twice here."""
    return all(None not in column and len(set(column)) == len(column) for column in columns)


def _is_date(word: str) -> bool:
    # Whatever has no digit first is no date, and most words have none.
    if not word.strip()[:1].isdigit():
        return False
    if DATE.fullmatch(word.strip()):
        return True
    try:
        datetime.fromisoformat(word.strip())
    except ValueError:
        return False
    return True


def _numbered_levels(tables: Sequence[Table], name: str, kind: str) -> list[float] | None:
    """Return levels of an ordinal column that are numbers: as text, 10 would come before 2."""
    texts = _worded(tables)
    if kind != "ordinal" or not texts:
        return None
    words = {word.strip() for table in texts for word in table.of(name) if word is not None}
    if not all(map(NUMBER.fullmatch, words)):
        return None
    return sorted(map(float, words))
