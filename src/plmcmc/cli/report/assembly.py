"""`plmcmc impute --report`: a page on what was missing, what was filled in, and how surely."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plmcmc import __version__
from plmcmc.cli.printable import named
from plmcmc.cli.report.cautions import Column, converged_share, warnings_of
from plmcmc.cli.report.diagnosis import chains_section, hidden_section, imputed_section
from plmcmc.cli.report.figures import PATTERN_ROWS, pattern_png
from plmcmc.cli.report.page import NOTHING, Html, bar, element, html_list, page, picture, table
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.diagnosis import LEVEL, ROWS, Diagnosis
from plmcmc.tables import Table
from plmcmc.tables.columns import Plan
from plmcmc.tables.fill import Found


@dataclass(frozen=True, eq=False)
class Asked:
    """What was asked, and of which tables.

    Attributes:
        arguments: the command's.
        plan: what its columns are.
        tables: as they were read.
        frames: the columns to fill.
    """

    arguments: Namespace
    plan: Plan
    tables: Sequence[Table]
    frames: Sequence[pd.DataFrame]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(table.rows for table in self.tables)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells are missing, `(rows, columns)`, columns as in the first table."""
        names = self.tables[0].names
        return np.concatenate(
            [np.stack([own.missing(name) for name in names], 1) for own in self.tables]
        )


def report(asked: Asked, found: Found, imputer: FlowImputer | None) -> str:
    """Return the page.

    Args:
        asked: what was.
        found: how chains converged.
        imputer: what filled the tables; None if there was nothing to fill.
    """
    frame = pd.concat(list(asked.frames), ignore_index=True)
    diagnosis = None if imputer is None else _diagnosed(imputer, frame)
    columns = _columns(asked, frame)
    nothing_seen = int(frame.isna().to_numpy().all(1).sum()) if len(frame.columns) else 0
    beware = warnings_of(columns, asked.rows, nothing_seen, found, diagnosis)
    parts = [
        element("h1", "What was missing, and what was filled in"),
        element("p", ", ".join(str(table.path) for table in asked.tables), "soft"),
        _in_short(asked, columns, found, diagnosis),
        *_beware(beware),
        *_asked_section(asked, imputer),
        *_missing_section(asked, columns),
    ]
    if imputer is not None and diagnosis is not None:
        parts += [
            *imputed_section(diagnosis),
            *hidden_section(diagnosis),
            *chains_section(found, diagnosis),
        ]
    return page("Imputation report", [*parts, *_last_words()])


def _diagnosed(imputer: FlowImputer, frame: pd.DataFrame) -> Diagnosis:
    """Look at some rows, those with holes first; show them beside all observed values."""
    holes = frame.isna().any(axis=1).to_numpy()
    shuffled = np.random.default_rng(imputer.seed_).permutation(len(frame))
    picked = shuffled[np.argsort(~holes[shuffled], kind="stable")][:ROWS]
    found = imputer.diagnose(frame.iloc[np.sort(picked)].reset_index(drop=True))
    codes = imputer.layout_.codes(frame)
    return replace(
        found,
        names=tuple(map(named, found.names)),
        observed=tuple(own[~np.isnan(own)] for own in codes.T),
    )


def _columns(asked: Asked, frame: pd.DataFrame) -> list[Column]:
    plan = asked.plan
    return [
        Column(
            named(name),
            plan.known.kinds.get(name),
            plan.passed.get(name),
            sum(table.holes(name) for table in asked.tables),
            len(frame[name].dropna().unique()) if name in plan.known.kinds else None,
        )
        for name in asked.tables[0].names
    ]


def _in_short(
    asked: Asked, columns: Sequence[Column], found: Found, diagnosis: Diagnosis | None
) -> Html:
    holes = sum(column.missing for column in columns if column.kind)
    cells = asked.rows * max(1, sum(column.kind is not None for column in columns))
    numbers = [
        (f"{asked.rows:,}", "rows"),
        (str(sum(column.kind is not None for column in columns)), "columns learned from"),
        (f"{holes:,}", f"missing values filled, {holes / cells:.1%} of the cells"),
    ]
    if diagnosis is not None:
        numbers.append((f"{converged_share(found, diagnosis):.0%}", "of them converged"))
        covered = diagnosis.interval_coverage
        if np.isfinite(covered):
            words = f"of hidden values in their {LEVEL:.0%} interval"
            numbers.append((f"{covered:.0%}", words))
    cells_of = (Html(element("b", number) + element("span", words)) for number, words in numbers)
    return html_list(cells_of, "numbers")


def _beware(words: Sequence[str]) -> Iterator[Html]:
    yield element("h2", "What to watch out for")
    if words:
        yield html_list(words, "warnings")
    else:
        yield element("p", "Nothing stood out.")


def _missing_section(asked: Asked, columns: Sequence[Column]) -> Iterator[Html]:
    yield element("h2", "What was missing")
    if not any(column.missing for column in columns):
        yield element("p", "Nothing.")
        return
    missing = asked.missing
    words = "Each line is a row, each stripe a column; missing cells are dark."
    words += (
        " Rows with the same columns missing are grouped, the most frequent pattern at the top."
    )
    if len(missing) > PATTERN_ROWS:
        words += f" {PATTERN_ROWS:,} of {len(missing):,} rows are shown, chosen at random."
    complete = int((~missing.any(1)).sum())
    whole = f"{complete:,} of {len(missing):,} rows were" if complete else "No row was"
    yield element("p", f"{whole} complete.")
    yield picture(pattern_png(asked.tables[0].names, missing), words, "small")
    yield table(
        ("column", "kind", "missing", "", "share", "what was done"),
        [
            (
                column.name,
                column.kind or NOTHING,
                f"{column.missing:,}",
                bar(column.missing / asked.rows),
                f"{column.missing / asked.rows:.1%}",
                _done(column),
            )
            for column in columns
        ],
        numbers=(2, 4),
    )


def _done(column: Column) -> str:
    if column.passed is not None:
        return f"passed through: {column.passed}"
    return "filled" if column.missing else "used for learning"


def _asked_section(asked: Asked, imputer: FlowImputer | None) -> Iterator[Html]:
    arguments = asked.arguments
    lines = [
        ("files", ", ".join(f"{table.path} ({table.rows:,} rows)" for table in asked.tables)),
        ("written to", str(Path(arguments.output))),
        (
            "columns",
            f"{len(asked.plan.known.kinds)} filled or used for learning, {len(asked.plan.passed)} "
            "passed through",
        ),
        ("model", arguments.model or "fitted to these files"),
    ]
    if imputer is not None:
        filled = f"{arguments.draws} tables of draws" if arguments.draws else imputer.statistic
        lines += [
            ("effort", imputer.effort_.name),
            ("filled with", filled),
            ("seed", str(imputer.seed_)),
        ]
    if arguments.na_values:
        lines.append(("marks of missing values", ", ".join(arguments.na_values)))
    if arguments.exclude:
        lines.append(("excluded", ", ".join(arguments.exclude)))
    if arguments.flag:
        lines.append(("rows that converged", f"marked in column {arguments.flag}"))
    lines.append(("plmcmc", __version__))
    yield element("h2", "Settings")
    yield table((), lines, words=(1,))


def _last_words() -> Iterator[Html]:
    yield element("h2", "How to read this")
    yield html_list(
        (
            "All of this assumes that values are missing at random: that whether a value is "
            "missing depends only on what is observed. If values are missing because of what they "
            "are (such as high incomes that are kept secret), the table cannot show it.",
            "R-hat compares chains that started from different points; near 1 they agree.",
            "For statistics (means, regressions, standard errors) do not use a single filled "
            "table: write several with --draws, and pool the results.",
        )
    )
