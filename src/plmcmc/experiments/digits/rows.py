"""Rows of Table 1: what all trainings say of each method, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plmcmc.experiments.markdown import row_label, with_error
from plmcmc.experiments.study import Found

# What the paper prints (6.1): RMSE, then FID, of the rows in PRINTED.
PAPER = {
    "I.M. 0.3": (
        *("0.2570(1)", "0.153(1)", "0.130(2)", "0.1277(4)"),
        *("23.5(1)", "1.56(7)", "1.58(8)", "0.17(1)"),
    ),
    "I.M. 0.6": (
        *("0.2573(1)", "0.1585(6)", "0.1456(1)", "0.167(2)"),
        *("72.2(1)", "5.7(5)", "6.1(5)", "0.78(2)"),
    ),
    "I.M. 0.9": (
        *("0.2574(0)", "0.261(2)", "0.256(1)", "0.326(4)"),
        *("114.7(1)", "87(2)", "90(2)", "11(1)"),
    ),
    "S.O. 0.3": (
        *("0.0577(3)", "0.0410(3)", "0.0371(3)", "0.0439(6)"),
        *("0.1(0)", "0.075(1)", "0.076(1)", "0.006(1)"),
    ),
    "S.O. 0.6": (
        *("0.1688(2)", "0.152(3)", "0.137(2)", "0.159(2)"),
        *("5.8(1)", "1.4(2)", "1.7(2)", "0.6(1)"),
    ),
    "S.O. 0.9": (
        *("0.2467(1)", "0.2595(8)", "0.2535(7)", "0.322(1)"),
        *("68.7(2)", "50(2)", "54(1)", "4(1)"),
    ),
    "P.M. 0.3": (
        *("0.2629(3)", "0.1795(8)", "0.1565(5)", "0.1956(8)"),
        *("17.0(1)", "1.6(1)", "1.8(1)", "0.8(1)"),
    ),
    "P.M. 0.6": (
        *("0.2641(1)", "0.221(4)", "0.205(3)", "0.247(1)"),
        *("57.6(1)", "15(1)", "16(1)", "2.9(2)"),
    ),
    "P.M. 0.9": (
        *("0.2622(0)", "0.2675(8)", "0.2648(9)", "0.3693(9)"),
        *("110.5(1)", "89(2)", "92(2)", "16(2)"),
    ),
}
PRINTED = ("mean", "PL-MCMC, single", "PL-MCMC, average", "MisGAN")
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
