"""What the studies of efficiency say of themselves: where curves end, beside the paper's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.experiments.markdown import (
    OURS,
    OURS_IN_SHORT,
    PL_MCMC,
    over_replications,
    table,
    with_error,
)
from plmcmc.experiments.study import Found

SCORES = ("RMSE", "RMSE to the converged mean", "accepted, first tenth", "accepted, last tenth")
COLUMNS = (*SCORES, "proposals", "passes", "seconds")
# What lines are called that are not of a scale, in full and in short.
THEIR_OWN = "sigma_p .01, sigma_r 1 (the paper's)"
NAMES = {"plmcmc": OURS, "default": THEIR_OWN}
SHORT = NAMES | {"plmcmc": OURS_IN_SHORT}
# What the paper says of its figures; it prints no numbers.
PAPER = {
    "sigma_a": "The paper (6.3): PL-MCMC beats Gibbs even with a flat auxiliary density, also per "
    "flow transformation; tighter densities are faster up to about 10^-1.5, and may be detrimental "
    "beyond; 10^-3 and 10^-6 nearly coincide.",
    "sigma_p": "The paper (6.3): larger perturbations converge faster at first, but may have "
    "trouble in concentrated regions.",
    "sigma_p alone": "The paper (E.3): perturbations alone at several scales, next to its own "
    "setting, sigma_p .01 and sigma_r 1.",
    "sigma_r": "The paper (E.3): fresh draws at several scales.",
}


def ends_of(curves: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return where curves end, and how many proposals are accepted early and late."""
    accepted = curves["acceptance"][1:]
    tenth = max(1, len(accepted) // 10)
    ends = (curves["RMSE"][-1], curves["RMSE to the converged mean"][-1])
    shares = (accepted[:tenth].mean(), accepted[-tenth:].mean())
    scores = zip(SCORES, (*ends, *shares), strict=True)
    numbers: dict[str, Any] = {name: round(float(value), 5) for name, value in scores}
    return numbers | {name: int(curves[name][-1]) for name in ("proposals", "passes")}


def in_short(name: str) -> str:
    """Return what a variant is called in a figure.

    Example:
        >>> in_short("sigma_a 10^-3"), in_short("plmcmc")
        ('sigma_a 10^-3', 'default sampler')
    """
    return SHORT.get(name, name)


def about(counts: Iterable[int]) -> str:
    """Return what the table is of, when lines have so many replications."""
    return (
        f"Values at the end of the curves: {over_replications(counts)}. Lines named after a sigma "
        f"are {PL_MCMC}; proposals, passes and seconds are means.\n\n"
    )


def table_of(runs: Mapping[str, Sequence[Found]]) -> str:
    """Return a line for every variant: means over replications, with their errors."""
    rows = (
        (
            NAMES.get(name, name),
            [_cell(column, [run.numbers[column] for run in own]) for column in COLUMNS],
        )
        for name, own in runs.items()
    )
    return table("", COLUMNS, rows)


def _cell(column: str, values: Sequence[float]) -> str:
    return with_error(values) if column in SCORES else f"{np.mean(values):,.0f}"


def converged_caption(converged: Found, taken: tuple[int, int], chains: int) -> str:
    """Return what the converged mean is of, and how far it may be trusted.

    Args:
        converged: what was found of it.
        taken: its chains, and the draws of each.
        chains: that curves are means over.
    """
    own = converged.numbers
    return (
        f"The converged mean is of {taken[0]} chains of {OURS} with {taken[1]} draws "
        f"each: R-hat {own['R-hat, median']} (median pixel), {own['R-hat, largest']} (largest), "
        f"{own['share of pixels at R-hat 1.05 or less']:.1%} of the hidden pixels at 1.05 or less; "
        f"{own['effective draws, least']:g} effective draws of the slowest. Its own RMSE to the "
        f"digit is {own['RMSE']:.4f}; a mean of {chains} exact draws would be {own['noise']:.4f} "
        f"from it.\n"
    )
