"""Warnings in words: which rows cannot be trusted, and what to change."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from plmcmc.data.refusal import place_of
from plmcmc.posterior.draws import Draws
from plmcmc.statistics.convergence import MINIMUM_DRAWS, rhat_by_chance

RHAT_LIMIT = 1.05
# Walkers whose weights must count, for their spread to say how far off their mean may be.
FEWEST_WALKERS = 10
# Fewer proposals than this may all be rejected by a healthy chain.
STUCK_STEPS = 20


class ConvergenceWarning(UserWarning):
    """The chains of a row disagree: its draws do not follow p(x_M | x_O) yet."""


class StuckWarning(UserWarning):
    """A chain never moved."""


class EvidenceWarning(UserWarning):
    """The evidence of a row rests on a few walkers."""


class BiasedWarning(UserWarning):
    """The method does not leave the target invariant."""


def warn(draws: Draws, steps: int) -> None:
    """Say what is wrong with these draws, if anything; each chain took so many kept steps."""
    _warn_biased(draws)
    if steps >= STUCK_STEPS:
        _warn_stuck(draws)
    _warn_unchecked(draws)
    _warn_unconverged(draws)


def _warn_biased(draws: Draws) -> None:
    if not draws.exact:
        _say(
            BiasedWarning, f"{draws.method} is biased: its draws are not exactly from p(x_M | x_O)"
        )


def _warn_stuck(draws: Draws) -> None:
    stuck = np.flatnonzero((draws.acceptance == 0).any(0))
    if len(stuck):
        _say(
            StuckWarning,
            f"{named_rows(stuck)}: a chain never accepted a proposal. Use smaller steps, a wider "
            f"auxiliary, or another method (used {draws.method})",
        )


def _warn_unchecked(draws: Draws) -> None:
    count = draws.values.shape[1]
    if count < MINIMUM_DRAWS and not draws.observed.all():
        _say(
            ConvergenceWarning,
            f"R-hat needs {MINIMUM_DRAWS} draws per chain, but only {count} were requested: "
            "convergence was not checked",
        )


def _warn_unconverged(draws: Draws) -> None:
    rhat = draws.rhat()
    # NaN at a hole means that it never moved in any chain: that is not convergence.
    bad = ~draws.observed & ~(rhat <= RHAT_LIMIT)
    if draws.values.shape[1] < MINIMUM_DRAWS or not bad.any():
        return
    rows = np.flatnonzero(bad.reshape(len(bad), -1).any(1))
    severity = np.where(bad, np.nan_to_num(rhat, nan=np.inf, posinf=np.inf), -np.inf)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(severity)), rhat.shape))
    at = place_of(severity == severity[place], draws.labels.columns)
    worst = f"worst {rhat[place]:.3g} at {at}"
    chains, count = draws.values.shape[:2]
    missing = int((~draws.observed).sum())
    advice = (
        f"These chains have not converged: increase thin or draws (now {count}), then warmup, or "
        f"try another method (used {draws.method})"
    )
    if severity[place] <= rhat_by_chance(chains, count, missing):
        advice = (
            f"Of so few draws per chain ({count}) this may be chance: increase draws to find out"
        )
    _say(
        ConvergenceWarning,
        f"{named_rows(rows)}: split R-hat exceeds {RHAT_LIMIT} for {int(bad.sum())} of "
        f"{missing} missing entries ({worst}). {advice}",
    )


def warn_of_evidence(standard_error: NDArray[np.float64], particles: int) -> None:
    """Say whose evidence rests on so few walkers that its standard error cannot be trusted."""
    # The number of equal weights whose mean would have the same error.
    worth = particles / (1 + (particles - 1) * standard_error**2)
    least = min(FEWEST_WALKERS, particles // 2)
    few = np.flatnonzero(~(worth >= least))
    if len(few):
        _say(
            EvidenceWarning,
            f"{named_rows(few)}: the evidence rests on fewer than {least} of {particles} "
            "walkers: it may be too low, and its standard error too small. Increase stages, then "
            "particles",
        )


def named_rows(numbers: Iterable[int]) -> str:
    """Name up to ten rows, each once, by their numbers."""
    names = sorted(set(numbers))
    listed = ", ".join(str(name) for name in names[:10])
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"row{'s' if len(names) > 1 else ''} {listed}{more}"


def _say(category: type[Warning], message: str) -> None:
    # The caller of a Conditional's method: two functions here and two of the room lie between.
    warnings.warn(message, category, stacklevel=5)
