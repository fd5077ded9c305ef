"""What kind a column is, judged by its values; or why it is left as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from plmcmc.imputation.kinds import DISTINCT, MANY, MOST_LEVELS
from plmcmc.storage.strict_json import shown
from plmcmc.tables.cells import Words
from plmcmc.tables.kinds import NUMBER
from plmcmc.tables.parquet import ParquetTable
from plmcmc.tables.reading import Table

# As spreadsheets write them; others are read by the standard library.
DATE = re.compile(r"\d{1,4}([/.-])\d{1,2}\1\d{1,4}([ T]\d{1,2}:.*)?")
MOSTLY = 0.95
FREE_TEXT = 50
WHOLE = re.compile(r"[+-]?\d+")
# So pandas writes whole numbers of a column with holes.
WHOLE_AS_FLOAT = re.compile(r"[+-]?\d+\.0*")
# With decimal commas, or commas between thousands: 1,5 and 1.234,5 and 1,234.5.
COMMA = re.compile(r"[+-]?(\d+(\.\d{3})*,\d+|\d{1,3}(,\d{3})+(\.\d*)?)")
# Numbers with a sign of percent or currency, in brackets, or with gaps between thousands.
DRESSED = re.compile(
    r"\(?[+\-\u2212]?[$\u00a3\u00a5\u20ac]? ?(\d{1,3}([.,'\s]\d{3})+|\d+)([.,]\d+)?"
    r" ?[%\u2030$\u00a3\u00a5\u20ac]?\)?"
)
# 007 is a code: as a number it would be 7.
CODE = re.compile(r"[+-]?0\d+")
# Identifiers are one of so few whole numbers, or have so many digits.
DENSE, LONG = 3, 6
# So few different words among so many different numbers are likely to mark what is missing.
FEW_WORDS, MANY_NUMBERS = 3, 20
# So many different numbers are not categories, if few of them repeat.
SOME_NUMBERS = 8


class PassThrough(NamedTuple):
    """Why a column is left as it is."""

    reason: str


def decided(tables: Sequence[Table], name: str) -> str | PassThrough:
    """Return the kind of a column, or why it passes through, by its values in all tables."""
    texts = worded(tables)
    if texts:
        return _decided_text(texts, name)
    return _decided_stored([table for table in tables if isinstance(table, ParquetTable)], name)


def worded(tables: Sequence[Table]) -> list[Words]:
    """Return the words of tables that have them."""
    return [table.words for table in tables if not isinstance(table, ParquetTable)]


def _decided_text(tables: Sequence[Words], name: str) -> str | PassThrough:
    columns = [table.of(name) for table in tables]
    words = [word.strip() for column in columns for word in column if word is not None]
    others = [word for word in words if not NUMBER.fullmatch(word)]
    if any(CODE.fullmatch(word) for word in words):
        return _decided_words(columns)
    if others:
        share = 1 - len(others) / len(words)
        if share >= MOSTLY:
            _refuse_text(tables, name, "nearly all")
        commas = sum(COMMA.fullmatch(word) is not None for word in others) / len(words)
        if commas and share + commas >= MOSTLY:
            _refuse_commas(tables, name)
        if _are_marks(others, words):
            _refuse_text(tables, name, "most" if share >= 0.5 else "the other")
        return _decided_words(columns)
    if all(WHOLE.fullmatch(word) for word in words):
        return PassThrough("identifier") if _numbered(columns) else "integer"
    return "integer" if all(WHOLE_AS_FLOAT.fullmatch(word) for word in words) else "continuous"


def _are_marks(others: Sequence[str], words: Sequence[str]) -> bool:
    """Whether what stands among numbers looks like marks of missing values: `-`, or one word."""
    marks = set(others)
    if len(marks) > FEW_WORDS:
        return False
    # Of few different numbers and a word, all may be categories: K, 1, 2, ... of school grades.
    # Numbers of which hardly any repeats are none, however few: a mark may stand in most cells.
    numbers, different = len(words) - len(others), len(set(words) - marks)
    if different >= min(MANY_NUMBERS, max(SOME_NUMBERS, numbers / 2)):
        return True
    return numbers >= len(others) and not any(letter.isalnum() for mark in marks for letter in mark)


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
        return PassThrough("identifier") if _numbered(lists) else "integer"
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
    distinct = len(set(words))
    few = distinct <= max(FREE_TEXT, sum(map(len, columns)) / 2)
    repeated = len(words) < MANY or distinct <= DISTINCT * len(words)
    alone = _distinct(columns)
    if few and repeated and not alone and distinct <= MOST_LEVELS:
        return "categorical"
    if (number := _dressed(words)) is not None:
        return PassThrough(f"numbers written like {shown(number)}: only plain ones are filled")
    if alone:
        return PassThrough("identifier")
    return _too_many(distinct) if few and repeated else PassThrough("free text")


def _dressed(words: Sequence[str]) -> str | None:
    """Return one of the numbers with other signs, if nearly all words are numbers; None if not."""
    words = [word.strip() for word in words]
    plain = [NUMBER.fullmatch(word) is not None for word in words]
    dressed = [
        word
        for word, number in zip(words, plain, strict=True)
        if not number and DRESSED.fullmatch(word)
    ]
    enough = sum(plain) + len(dressed) >= MOSTLY * len(words)
    return dressed[0] if dressed and enough else None


def _too_many(distinct: int) -> PassThrough:
    return PassThrough(f"{distinct} different values; at most {MOST_LEVELS} can be learned")


def _refuse_text(tables: Sequence[Words], name: str, share: str) -> None:
    """Say where the words are that keep a column from being numbers."""
    at, word = _first(tables, name, lambda word: not NUMBER.fullmatch(word))
    raise ValueError(
        f"{at}: expected a number, like {share} values of this column; got {shown(word)}. "
        "Correct it, mark it missing with --na-values, or declare the column categorical with "
        "--types, if it has few different values; --exclude leaves it unchanged"
    )


def _refuse_commas(tables: Sequence[Words], name: str) -> None:
    """Say where a number has a comma: taken as a word, it would be told apart, not measured."""
    at, word = _first(tables, name, lambda word: COMMA.fullmatch(word) is not None)
    raise ValueError(
        f"{at}: expected numbers with a decimal point and no commas; got {shown(word)}. Rewrite "
        "them, or declare the column categorical with --types, if it has few different values; "
        "--exclude leaves it unchanged"
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


def _numbered(columns: Sequence[Sequence[Any]]) -> bool:
    """Whether whole numbers only tell rows apart: unlike incomes, of which none may repeat either.

    They are in order, or leave few numbers out, or are long and all of the same length.
    """
    if not _distinct(columns):
        return False
    numbers = [[int(value) for value in column] for column in columns]
    every = [value for column in numbers for value in column]
    in_order = all(own in (sorted(own), sorted(own, reverse=True)) for own in numbers)
    dense = max(every) - min(every) < DENSE * len(every)
    lengths = {len(str(abs(value))) for value in every}
    return in_order or dense or (len(lengths) == 1 and lengths.pop() >= LONG)


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
