"""What each column of a table is: one to learn from and to fill, or one to leave as it is."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from plmcmc.data.schema import KINDS
from plmcmc.imputation import FlowImputer
from plmcmc.storage.strict_json import parsed, shown
from plmcmc.tables.detection import PassThrough, decided, worded
from plmcmc.tables.kinds import NUMBER, Kinds, listed
from plmcmc.tables.reading import Table, check_readable, check_same


class Plan(NamedTuple):
    """What to do with each column.

    Attributes:
        known: the columns to learn from and to fill.
        passed: the others, and why they are left as they are.
    """

    known: Kinds
    passed: dict[str, str]


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
            found = types.get(name) or decided(tables, name)
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


def _numbered_levels(tables: Sequence[Table], name: str, kind: str) -> list[float] | None:
    """Return levels of an ordinal column that are numbers: as text, 10 would come before 2."""
    texts = worded(tables)
    if kind != "ordinal" or not texts:
        return None
    words = {word.strip() for table in texts for word in table.of(name) if word is not None}
    if not all(map(NUMBER.fullmatch, words)):
        return None
    return sorted(map(float, words))
