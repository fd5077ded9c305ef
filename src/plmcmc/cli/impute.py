"""`plmcmc impute`, `plmcmc fit` and `plmcmc info`: files with holes in, files without out."""

from __future__ import annotations

import json
import os
import re
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Shown

from plmcmc.cli.tables import (
    NUMBER,
    Kinds,
    ParquetTable,
    Table,
    TextTable,
    form_of,
    read_table,
    suffix_of,
    write_files,
)
from plmcmc.data import DataError
from plmcmc.data.schema import KINDS
from plmcmc.imputation import FlowImputer, model

SEED = 0
MOSTLY = 0.95
FREE_TEXT = 50
WHOLE = re.compile(r"[+-]?\d+")
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


def impute(arguments: Namespace) -> None:
    """Fill the holes of files with tables, by a saved model or one fitted to all of them."""
    began = time.perf_counter()
    _check_options(arguments)
    paths = [Path(name) for name in arguments.data]
    places = _places(paths, Path(arguments.output), arguments.draws)
    _check_free([place for own in places for place in own], overwrite=arguments.overwrite)
    imputer = _loaded(arguments) if arguments.model else None
    tables = _read(paths, arguments.na_values)
    plan = _plan_of_model(imputer, tables) if imputer else _plan(tables, arguments)
    _tell_passed(plan, tables)
    holes = {n: sum(table.holes(n) for table in tables) for n in plan.known.kinds}
    frames = [table.frame(plan.known) for table in tables]
    if any(holes.values()):
        imputer = imputer or _fitted(arguments, plan, frames)
    else:
        _say("Nothing to fill: no cell of the columns to fill is missing. Copying.")
        imputer = None
    written = _imputed(imputer, arguments.draws, plan.known, tables, frames)
    write_files(
        pair
        for own, contents in zip(places, written, strict=True)
        for pair in zip(own, contents, strict=True)
    )
    _tell_filled(plan, holes, sum(table.rows for table in tables))
    for own in places:
        _say(f"Written: {', '.join(map(str, own))}")
    _say(f"{time.perf_counter() - began:.1f} s in all.")


def fit(arguments: Namespace) -> None:
    """Learn from files with tables, and save what was learned."""
    began = time.perf_counter()
    place = Path(arguments.output)
    if place.exists() and not arguments.overwrite:
        raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
    _check_directory(place.parent)
    tables = _read([Path(name) for name in arguments.data], arguments.na_values)
    plan = _plan(tables, arguments)
    _tell_passed(plan, tables)
    if not plan.known.kinds:
        raise ValueError("expected a column to learn from; say with --types what they are")
    imputer = _fitted(arguments, plan, [table.frame(plan.known) for table in tables])
    imputer.save(place, overwrite=arguments.overwrite)
    rows = sum(table.rows for table in tables)
    _say(f"Learned {len(plan.known.kinds)} columns from {rows} rows.\nWritten: {place}")
    _say(f"{time.perf_counter() - began:.1f} s in all.")


def info(path: str) -> None:
    """Print what a saved imputer holds."""
    imputer = FlowImputer.load(path)
    layout = imputer.layout_
    shown = Shown(title=escape(path))
    for name in ("column", "kind", "levels"):
        shown.add_column(name)
    for name, kind, levels in zip(layout.names, layout.kinds, layout.levels, strict=True):
        words = [str(level) for level in levels or ()]
        more = f" ... ({len(words)} in all)" if len(words) > 10 else ""
        shown.add_row(escape(name), kind, escape(", ".join(words[:10]) + more))
    Console().print(shown)
    effort = imputer.effort_
    named = next((name for name, known in model.EFFORTS.items() if known == effort), "custom")
    _say(
        f"effort: {named}\nmembers: {effort.members}\nseed: {imputer.seed_}\n"
        f"statistic: {imputer.statistic}"
    )


def _check_options(arguments: Namespace) -> None:
    """Refuse options that would have no effect."""
    if arguments.draws is not None and arguments.draws < 1:
        raise ValueError(f"--draws must be at least 1; got {arguments.draws}")
    if arguments.draws and arguments.statistic not in (None, "draw"):
        raise ValueError(
            f"--draws writes draws, and --statistic {arguments.statistic} asks for one table: "
            f"leave out one of them"
        )
    for option in ("effort", "types", "exclude"):
        if arguments.model and getattr(arguments, option):
            raise ValueError(
                f"--{option} belongs to fitting, and --model is fitted already: leave it out"
            )


def _places(paths: Sequence[Path], output: Path, draws: int | None) -> list[list[Path]]:
    """Return the files to write for each file that is read."""
    if len(paths) == 1:
        if output.is_dir():
            raise ValueError(f"{output} is a directory: expected a file for the one table")
        if form_of(output) != form_of(paths[0]):
            raise ValueError(
                f"{output}: expected a {form_of(paths[0])} file, as {paths[0]} is; choose that "
                f"suffix"
            )
        return [_numbered(output, draws)]
    names = [path.name for path in paths]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two files would be written to {output / twice[0]}: rename one")
    return [_numbered(output / name, draws) for name in names]


def _numbered(place: Path, draws: int | None) -> list[Path]:
    suffix = suffix_of(place)
    if draws is None:
        return [place]
    stem = place.name.removesuffix(suffix)
    return [place.with_name(f"{stem}-{draw}{suffix}") for draw in range(1, draws + 1)]


def _check_free(places: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse before the work what could not be written after it."""
    for place in places:
        if place.exists() and not overwrite:
            raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
        if place.is_dir():
            raise ValueError(f"{place} is a directory: expected the name of a file")
    for directory in {place.parent for place in places}:
        _check_directory(directory)


def _check_directory(directory: Path) -> None:
    there = next(p for p in (directory, *directory.absolute().parents) if p.exists())
    if not there.is_dir():
        raise ValueError(f"{there} is a file: expected a directory to write to")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{there} cannot be written to: choose another directory")


def _read(paths: Sequence[Path], na_values: Sequence[str]) -> list[Table]:
    """Read tables of the same columns."""
    tables = [read_table(path, na_values) for path in paths]
    first = tables[0]
    for table in tables[1:]:
        if type(table) is not type(first):
            raise ValueError(
                f"{first.path} and {table.path}: expected all Parquet, or all text; convert one"
            )
        _check_same(first.path, first.names, table.path, table.names)
        if isinstance(table, ParquetTable) and isinstance(first, ParquetTable):
            _check_types(first, table)
    return tables


def _check_same(
    wanted_by: object,
    wanted: Sequence[str],
    path: Path,
    names: Sequence[str],
    *,
    more: bool = False,
) -> None:
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    if missing or (extra and not more):
        raise ValueError(
            f"{path}: expected the columns of {wanted_by}; missing are {missing}, not known "
            f"{extra}. Rename, add or remove columns"
        )


def _check_types(first: ParquetTable, other: ParquetTable) -> None:
    for field in first.table.schema:
        found = other.table.schema.field(field.name).type
        if found != field.type and not pa.types.is_dictionary(found):
            raise ValueError(
                f"{other.path}, column {field.name!r}: expected {field.type}, as in {first.path}; "
                f"the file stores {found}. Convert one"
            )


def _plan(tables: Sequence[Table], arguments: Namespace) -> Plan:
    """Decide what each column is, from all tables together."""
    types = _types(arguments.types)
    names = tables[0].names
    for option, named in (("--exclude", arguments.exclude), ("--types", types)):
        unknown = [name for name in named if name not in names]
        if unknown:
            raise ValueError(f"{option} names columns {unknown}; the table has {names}")
    kinds, passed, levels = {}, {}, {}
    for name in names:
        found = types.get(name) or _decided(tables, name)
        if name in arguments.exclude:
            found = PassThrough("excluded")
        if isinstance(found, PassThrough):
            passed[name] = found.reason
        else:
            kinds[name], levels[name] = found, _numbered_levels(tables, name, found)
    return Plan(Kinds(kinds, levels), passed)


def _plan_of_model(imputer: FlowImputer, tables: Sequence[Table]) -> Plan:
    """Take the model's columns; others pass through."""
    layout = imputer.layout_
    for table in tables:
        _check_same("the model", layout.names, table.path, table.names, more=True)
    known = Kinds(
        dict(zip(layout.names, layout.kinds, strict=True)),
        dict(zip(layout.names, layout.levels, strict=True)),
    )
    others = [name for name in tables[0].names if name not in layout.names]
    return Plan(known, dict.fromkeys(others, "not in the model"))


def _types(path: str | None) -> dict[str, str]:
    """Read kinds of columns by name."""
    if path is None:
        return {}
    try:
        types = json.loads(Path(path).read_text())
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, which this is not: {error}") from None
    if not hasattr(types, "items"):
        raise ValueError(f'{path}: expected kinds by column, such as {{"age": "integer"}}')
    for name, kind in types.items():
        if kind not in KINDS:
            raise ValueError(
                f"{path}: the kind of {name!r} must be one of {', '.join(KINDS)}; got {kind!r}"
            )
    return types


def _decided(tables: Sequence[Table], name: str) -> str | PassThrough:
    if not any(table.holes(name) < table.rows for table in tables):
        return PassThrough("nothing in it to learn from")
    texts = [table for table in tables if isinstance(table, TextTable)]
    if texts:
        return _decided_text(texts, name)
    return _decided_stored([table for table in tables if isinstance(table, ParquetTable)], name)


def _decided_text(tables: Sequence[TextTable], name: str) -> str | PassThrough:
    columns = [table.words(name) for table in tables]
    words = [word.strip() for column in columns for word in column if word is not None]
    numbers = [NUMBER.fullmatch(word) is not None for word in words]
    if any(CODE.fullmatch(word) for word in words):
        return _decided_words(columns)
    if not all(numbers):
        if sum(numbers) >= MOSTLY * len(words):
            _refuse_text(tables, name)
        return _decided_words(columns)
    if not all(WHOLE.fullmatch(word) for word in words):
        return "continuous"
    return PassThrough("identifier") if _distinct(columns) else "integer"


def _decided_stored(tables: Sequence[ParquetTable], name: str) -> str | PassThrough:
    kind: Any = tables[0].table.schema.field(name).type
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
        return "ordinal" if kind.ordered else "categorical"
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
    if len(set(words)) > max(FREE_TEXT, sum(map(len, columns)) / 2):
        return PassThrough("free text")
    return "categorical"


def _refuse_text(tables: Sequence[TextTable], name: str) -> None:
    """Say where the few words are that keep a column from being numbers."""
    for table in tables:
        for row, word in enumerate(table.words(name)):
            if word is not None and not NUMBER.fullmatch(word.strip()):
                raise ValueError(
                    f"{table.path}, line {table.line(row)}, column {name!r}: expected a number, as "
                    f"nearly everywhere in this column; got {word!r}. Correct it, mark it missing "
                    f"with --na-values, or say with --types that the column is categorical"
                )


def _distinct(columns: Sequence[Sequence[Any]]) -> bool:
    """Whether no file has a hole or a value twice here."""
    return all(None not in column and len(set(column)) == len(column) for column in columns)


def _is_date(word: str) -> bool:
    try:
        datetime.fromisoformat(word.strip())
    except ValueError:
        return False
    return True


def _numbered_levels(tables: Sequence[Table], name: str, kind: str) -> list[float] | None:
    """Return levels of an ordinal column that are numbers: as text, 10 would come before 2."""
    texts = [table for table in tables if isinstance(table, TextTable)]
    if kind != "ordinal" or not texts:
        return None
    words = {word.strip() for table in texts for word in table.words(name) if word is not None}
    if not all(map(NUMBER.fullmatch, words)):
        return None
    return sorted(map(float, words))


def _loaded(arguments: Namespace) -> FlowImputer:
    imputer = FlowImputer.load(arguments.model)
    if arguments.statistic:
        imputer.statistic = arguments.statistic
    if arguments.seed is not None:
        imputer.seed_ = arguments.seed
    return imputer


def _fitted(arguments: Namespace, plan: Plan, frames: Sequence[pd.DataFrame]) -> FlowImputer:
    imputer = FlowImputer(
        arguments.effort or "default",
        statistic=getattr(arguments, "statistic", None) or "mean",
        types=dict(plan.known.kinds),
        random_state=SEED if arguments.seed is None else arguments.seed,
    )
    return imputer.fit(frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True))


def _imputed(
    imputer: FlowImputer | None,
    draws: int | None,
    known: Kinds,
    tables: Sequence[Table],
    frames: Sequence[pd.DataFrame],
) -> list[list[bytes]]:
    """Return the contents of the files to write for each table; copies, if there is no imputer."""
    found = []
    for table, frame in zip(tables, frames, strict=True):
        with _named(table.path):
            if imputer is None:
                filled = [frame] * (draws or 1)
            else:
                filled = imputer.complete(frame, draws) if draws else [imputer.transform(frame)]
        found.append([table.filled(known, completed) for completed in filled])
    return found


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file an imputer's message is about, and how it counts rows."""
    try:
        yield
    except DataError as error:
        raise ValueError(f"{path} (rows of data counted from 0): {error}") from None


def _tell_passed(plan: Plan, tables: Sequence[Table]) -> None:
    """Say which columns are left as they are, and why; refuse to work if those are all."""
    left = {name: sum(table.holes(name) for table in tables) for name in plan.passed}
    listed = ", ".join(
        f"{name} ({reason}{_left(left[name])})" for name, reason in plan.passed.items()
    )
    if any(left.values()) and not plan.known.kinds:
        raise ValueError(
            f"expected a column to learn from; all would pass through untouched: {listed}. Say "
            f"with --types what they are"
        )
    if plan.passed:
        _say(f"Passed through untouched: {listed}.")


def _left(holes: int) -> str:
    return f"; {holes} missing" if holes else ""


def _tell_filled(plan: Plan, holes: Mapping[str, int], rows: int) -> None:
    """Show what was filled, a line per column that had holes."""
    if not any(holes.values()):
        return
    shown = Shown(title=f"{rows} rows, {sum(holes.values())} holes filled")
    shown.add_column("column")
    shown.add_column("kind")
    shown.add_column("filled", justify="right")
    shown.add_column("of rows", justify="right")
    for name, count in holes.items():
        if count:
            share = f"{100 * count / rows:.1f}%"
            shown.add_row(escape(name), plan.known.kinds[name], str(count), share)
    Console().print(shown)


def _say(text: str) -> None:
    # Names of columns and files may look like markup; long lines are for the terminal to wrap.
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
