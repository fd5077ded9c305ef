"""The parts of a report that a diagnosis tells: what was filled in, how surely, by which chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from plmcmc.cli.report.cautions import converged_share
from plmcmc.cli.report.figures import SHOWN, most_holes, png, short
from plmcmc.cli.report.page import NOTHING, Html, bar, element, picture, table
from plmcmc.imputation.convergence import LIMIT
from plmcmc.imputation.diagnosis import LEVEL, ROWS, Diagnosis
from plmcmc.imputation.layout import VOTED
from plmcmc.tables.fill import Found


def imputed_section(diagnosis: Diagnosis) -> Iterator[Html]:
    """Say what was filled in, and how surely."""
    yield element("h2", "What was filled in")
    yield element(
        "p",
        f"Each missing value is drawn many times. These draws are shown here, for at most {ROWS} "
        "rows, next to all observed values. The two need not look alike: rows with missing values "
        "may differ from complete ones.",
    )
    yield picture(
        png(most_holes(diagnosis).densities()),
        "Observed (grey) and imputed values (red), column by column." + _only(diagnosis),
    )
    numbers = [p for p, k in enumerate(diagnosis.kinds) if k in ("continuous", "integer")]
    numbers = [place for place in numbers if diagnosis.imputed[place].shape[1]]
    others = [p for p, drawn in enumerate(diagnosis.imputed) if drawn.shape[1]]
    others = [place for place in others if place not in numbers]
    if numbers:
        yield element(
            "p",
            f"Median width of the {LEVEL:.0%} interval of a missing value, compared with the "
            f"range that contains {LEVEL:.0%} of the column's observed values: 100% means that "
            "the other columns carry no information about it.",
        )
        yield table(
            ("column", "observed range", "median width", "", "share of range"),
            [width_row(diagnosis, place) for place in numbers],
            numbers=(2, 4),
        )
    if others:
        yield element(
            "p", "Share of draws that agree on the most frequent value (median over missing cells)."
        )
        yield table(
            ("column", "most frequent observed", "", "draws agree"),
            [level_row(diagnosis, place) for place in others],
            numbers=(3,),
        )


def width_row(diagnosis: Diagnosis, place: int) -> tuple[Any, ...]:
    """Return a line on the intervals of a column of numbers."""
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    drawn = diagnosis.imputed[place].swapaxes(1, 2).reshape(-1, diagnosis.imputed[place].shape[1])
    low, high = np.quantile(drawn, ends, axis=0)
    name, width = diagnosis.names[place], float(np.median(high - low))
    if not len(diagnosis.observed[place]):
        return name, NOTHING, f"{width:.4g}", "", NOTHING
    first, last = np.quantile(diagnosis.observed[place], ends)
    seen = f"{first:.4g} to {last:.4g}"
    if last == first:
        return name, seen, f"{width:.4g}", "", NOTHING
    return name, seen, f"{width:.4g}", bar(width / (last - first)), f"{width / (last - first):.0%}"


def level_row(diagnosis: Diagnosis, place: int) -> tuple[Any, ...]:
    """Return a line on the draws of a column of levels."""
    levels = diagnosis.levels[place] or ()
    drawn = diagnosis.imputed[place]
    votes = np.stack([(drawn == code).mean((0, 2)) for code in range(len(levels))])
    agreed = float(np.median(votes.max(0)))
    seen = np.bincount(diagnosis.observed[place].astype(int), minlength=len(levels))
    share = seen.max() / max(seen.sum(), 1)
    words = f"{short(str(levels[int(seen.argmax())]))} ({share:.0%})" if seen.any() else NOTHING
    return diagnosis.names[place], words, bar(agreed), f"{agreed:.0%}"


def hidden_section(diagnosis: Diagnosis) -> Iterator[Html]:
    """Say how values hidden on purpose were found."""
    yield element("h2", "Values hidden on purpose")
    covered, right = diagnosis.interval_coverage, diagnosis.right_levels
    words = "A tenth of the known values was hidden, then imputed as if missing."
    if np.isfinite(covered):
        words += (
            f" Of values hidden on purpose, {covered:.0%} lay in their {LEVEL:.0%} interval, "
            f"which should be about {LEVEL:.0%}."
        )
    if np.isfinite(right):
        words += f" Of hidden categories and flags, {right:.0%} were guessed correctly."
    if not np.isfinite(covered) and not np.isfinite(right):
        words += " There were too few for a result."
    else:
        words += (
            " If the model was fitted to this table, it has learned from these values, too: values "
            "that are really missing are then recovered less often."
        )
    yield element("p", words)


def chains_section(found: Found, diagnosis: Diagnosis) -> Iterator[Html]:
    """Say whether chains converged."""
    yield element("h2", "Have the chains converged?")
    share = converged_share(found, diagnosis)
    words = f"{share:.0%} of the missing values have converged (R-hat under {LIMIT})"
    if found.settled is not None:
        words += (
            f"; in {found.settled:,} of {found.rows:,} rows with missing values, all of them have"
        )
    verdict = (
        "Chains that started from different points agree: what was filled in does not depend on "
        "the starting points."
        if share >= 0.9
        else "Not all chains that started from different points agree: --effort thorough runs them "
        "longer."
    )
    yield element("p", f"{words}. {verdict} {diagnosis.rows} rows were examined in detail:")
    yield table(
        ("column", "R-hat, median", "converged", "effective draws", "hidden values recovered"),
        [
            (name, f"{rhat:.2f}", f"{converged:.0%}", f"{ess:.0f}", _found(coverage, kind))
            for name, rhat, converged, ess, coverage, kind, drawn in zip(
                diagnosis.names,
                diagnosis.rhat,
                diagnosis.converged,
                diagnosis.ess,
                diagnosis.coverage,
                diagnosis.kinds,
                diagnosis.imputed,
                strict=True,
            )
            if drawn.shape[1]
        ],
        numbers=(1, 2, 3, 4),
    )
    yield picture(
        png(most_holes(diagnosis).traces()),
        "The chains of one missing value per column: they should overlap all the time."
        + _only(diagnosis),
    )


def _found(coverage: float, kind: str) -> str:
    if not np.isfinite(coverage):
        return NOTHING
    return f"{coverage:.0%} {'guessed right' if kind in VOTED else 'in their interval'}"


def _only(diagnosis: Diagnosis) -> str:
    count = sum(drawn.shape[1] > 0 for drawn in diagnosis.imputed)
    return f" The {SHOWN} of {count} columns with the most missing values are shown." * (
        count > SHOWN
    )
