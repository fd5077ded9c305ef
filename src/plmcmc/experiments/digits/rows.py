"""Rows of Table 1: what all trainings say of each method, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plmcmc.experiments.digits.printed import PAPER, PRINTED
from plmcmc.experiments.markdown import row_label, with_error
from plmcmc.experiments.study import Found

# Rows of our tables, by method; those that draw have two.
ROWS = (
    "mean",
    "PL-MCMC, single",
    "PL-MCMC, average",
    "plmcmc, single",
    "plmcmc, average",
    "MisGAN",
)
# What methods tell of themselves, by its name in our tables: method, name and form.
TOLD = {
    "PL-MCMC: proposals accepted in training": ("PL-MCMC", "accepted in training", ".3f"),
    "plmcmc: trajectories accepted in training": ("plmcmc", "accepted in training", ".3f"),
    "plmcmc: missing pixels at R-hat 1.1 or less": ("plmcmc", "share at R-hat 1.1 or less", ".3f"),
    "plmcmc: 90% intervals hold": ("plmcmc", "90% intervals hold", ".3f"),
    "plmcmc: nats of whole training digits": ("plmcmc", "nats of whole training digits", ".1f"),
    "plmcmc: nats of whole test digits": ("plmcmc", "nats of whole test digits", ".1f"),
    "MisGAN: epochs": ("MisGAN", "epochs", ".0f"),
}


@dataclass(frozen=True)
class Numbers:
    """What all trainings say of a cell and a method."""

    found: Mapping[str, Found]
    trainings: int

    def rows(self, cells: Sequence[str], score: str, first: int) -> Iterator[tuple[str, list[str]]]:
        """Yield every row of a score, and below it what the paper prints.

        Args:
            cells: columns of the table.
            score: `"RMSE"` or `"FID"`.
            first: where the score begins among the paper's numbers of a cell.
        """
        for row in ROWS:
            method, _, kind = row.partition(", ")
            name = f"{score}, {kind}" if kind else score
            yield row_label(row), [with_error(self.values(cell, method, name)) for cell in cells]
            if row in PRINTED:
                at = first + PRINTED.index(row)
                printed = [PAPER[cell][at] if cell in PAPER else "" for cell in cells]
                yield f"{row}, the paper's", printed

    def values(self, cell: str, method: str, name: str) -> list[float]:
        """Return a mean for every training; of one alone, its test masks."""
        lines = [line.numbers[name] for line in self.lines(cell, method)]
        return lines[0] if len(lines) == 1 else [float(np.mean(line)) for line in lines]

    def lines(self, cell: str, method: str) -> list[Found]:
        """Return what each training has found."""
        parts = (f"{cell}, training {number}, {method}" for number in range(self.trainings))
        return [self.found[part] for part in parts if part in self.found]

    def told(self, cells: Sequence[str], method: str, name: str, form: str) -> list[str]:
        """Return the mean of what a method tells of itself, for every cell."""
        lines = (self.lines(cell, method) for cell in cells)
        # One number, or one for every test or E-step, of which there may be none.
        told = [[v for own in line for v in np.ravel(own.numbers.get(name, []))] for line in lines]
        return [f"{np.mean(own):{form}}" if len(own) > 0 else "" for own in told]


def judges(found: Mapping[str, Found]) -> str:
    """Return how good classifiers are, and a warning if there is more than one."""
    accuracies: dict[str, float] = {}
    for own in found.values():
        accuracies[own.numbers.get("classifier", "not noted")] = own.numbers[
            "classifier's accuracy"
        ]
    named = "; ".join(f"{name}: {accuracy:.4f}" for name, accuracy in accuracies.items())
    text = f"\nAccuracy of the classifier on test digits, by a hash of its weights: {named}.\n"
    if len(accuracies) > 1:
        text += "**FIDs use different classifiers: they cannot be compared with each other.**\n"
    return text
