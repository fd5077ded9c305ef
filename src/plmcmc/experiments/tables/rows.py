"""Rows of Table 2: what all masks say of each method, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plmcmc.experiments.markdown import row_label, with_error
from plmcmc.experiments.study import Found
from plmcmc.experiments.tables.fillers import OURS
from plmcmc.training.presets import TABLES

SETS = tuple(TABLES)
# Mean and standard error, as printed: sets in the order of `SETS`.
PAPER = {
    "PL-MCMC, single": ("1.12(5)", "0.46(2)", "1.22(4)", "1.22(3)", "1.45(3)", "1.67(5)"),
    "PL-MCMC, average": ("0.58(3)", "0.31(2)", "0.67(3)", "0.69(3)", "0.76(1)", "0.96(6)"),
    "MIWAE": ("0.56(4)", "0.29(1)", "0.63(3)", "0.66(2)", "0.73(3)", "0.95(5)"),
    "missForest": ("0.74(3)", "0.31(1)", "0.67(2)", "0.74(3)", "0.81(1)", "1.18(3)"),
    "mean": ("0.99(1)", "1.00(3)", "1.00(1)", "1.00(2)", "1.01(1)", "0.96(6)"),
}
# As they stand in tables: PL-MCMC has two rows.
METHODS = ("PL-MCMC", OURS, "MIWAE", "missForest", "mean", "Gaussian EM", "miceforest")
# Both readings of the paper's score, and what each is a mean over.
NMSE = {"NMSE": "rows (E.2's formula)", "NMSE per entry": "entries (the paper's numbers)"}
# Rows of the tables, and what a part is called and a number in it.
ROWS = {"PL-MCMC, single": ("PL-MCMC", ", single")} | {
    ("PL-MCMC, average" if method == "PL-MCMC" else method): (method, "") for method in METHODS
}
# Of draws, and of all of a method's work, there is one number for each method.
BY_METHOD = {method: row for row, (method, suffix) in ROWS.items() if not suffix}


@dataclass(frozen=True)
class Numbers:
    """What all masks say of a row of the table."""

    found: Mapping[str, Found]
    masks: int

    def of(self, row: str, name: str, score: str) -> dict[int, float]:
        """Return a score by mask."""
        method, suffix = ROWS[row]
        lines = {
            mask: self.found.get(f"{name}, mask {mask}, {method}") for mask in range(self.masks)
        }
        return {
            mask: line.numbers[score + suffix]
            for mask, line in lines.items()
            if line is not None and score + suffix in line.numbers
        }

    def cell(self, row: str, name: str, score: str) -> str:
        """Return a mean with its error, and over how many masks if not all."""
        values = self.of(row, name, score).values()
        return with_error(values) + self._done(values)

    def plain(self, row: str, name: str, score: str) -> str:
        """Return a mean without its error: masks were filled by different machines."""
        values = self.of(row, name, score).values()
        return f"{np.mean([*values]):,.1f}{self._done(values)}" if values else ""

    def _done(self, values: Collection[float]) -> str:
        return f" [{len(values)}]" if 0 < len(values) < self.masks else ""


def with_the_paper_s(
    numbers: Numbers, sets: Sequence[str], score: str
) -> Iterator[tuple[str, list[str]]]:
    """Yield every row, and below it what the paper prints."""
    for row in ROWS:
        yield row_label(row), [numbers.cell(row, name, score) for name in sets]
        if row in PAPER:
            printed = dict(zip(SETS, PAPER[row], strict=True))
            yield f"{row}, the paper's", [printed.get(name, "") for name in sets]


def ahead(numbers: Numbers, sets: Sequence[str], score: str) -> tuple[str, list[str]]:
    """Return how far ours is from the best of the others, mask by mask."""
    cells = []
    for name in sets:
        ours, gaps = numbers.of(OURS, name, score), {}
        for row in ROWS:
            theirs = numbers.of(row, name, score)
            both = sorted(ours.keys() & theirs.keys())
            if row != OURS and both:
                gaps[row] = np.array([ours[mask] - theirs[mask] for mask in both])
        if not gaps:
            cells.append("")
            continue
        best = max(gaps, key=lambda row: gaps[row].mean())
        own = gaps[best]
        error = f" ± {own.std(ddof=1) / len(own) ** 0.5:.3f}" if len(own) > 1 else ""
        cells.append(f"{own.mean():+.3f}{error} ({best})")
    return f"{row_label(OURS)} minus the best of the others", cells
