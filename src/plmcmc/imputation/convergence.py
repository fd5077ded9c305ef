"""Have chains of a table converged? R-hat of every hole, from running sums."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.imputation.model import TableModel
from plmcmc.posterior import ConvergenceWarning, StuckWarning
from plmcmc.posterior.quality_warnings import named_rows

LIMIT = 1.1
# Under this share of converged holes there is a warning.
CONVERGED = 0.7
# Fewer states say nothing of convergence.
LEAST_STATES = 20
# Rows that a progress bar speaks of: all, after each chunk, would take longer and longer.
RECENT = 256
_INSIDE = ("plmcmc.imputation", "plmcmc.distributed", "sklearn.")


class Convergence:
    """Split R-hat of the holes' scores, each member's chains for themselves.

    Args:
        model: whose chains run.
        rows: how many rows there are.
        states: how many states will be shown.

    Attributes:
        rhat: `(members, rows, scores)`; NaN where nothing is missing. Without rows, if there are
            too few states to tell.
        stuck: bool `(rows,)`, which have a chain that never moved.
        numbers: `(rows,)`, which rows of the caller's table they are.
    """

    def __init__(self, model: TableModel, rows: int, states: int) -> None:
        self.members, self.states = model.members, states
        shape = (self.members, rows if self.checked else 0, model.schema.width)
        self.rhat = np.full(shape, np.nan, np.float32)
        self.stuck, self.numbers = np.zeros(rows, dtype=bool), np.arange(rows)

    def __len__(self) -> int:
        """How many rows there are to tell of."""
        return self.rhat.shape[1]

    @property
    def checked(self) -> bool:
        """Whether there are states enough to tell."""
        return self.states >= LEAST_STATES

    @property
    def share(self) -> float:
        """Share of the holes that have converged, over members; NaN if that cannot be told."""
        if not self.checked:
            return float("nan")
        found = self.rhat[np.isfinite(self.rhat) | np.isinf(self.rhat)]
        return float((found < LIMIT).mean()) if found.size else 1.0

    @property
    def rows(self) -> NDArray[np.bool_]:
        """Which rows have all of their holes converged, in most of the members, and none stuck."""
        good = (self.rhat < LIMIT) | np.isnan(self.rhat)
        settled = good.all(2).mean(0) > 0.5
        return settled & ~self.stuck[: len(settled)]

    def words(self, done: int) -> str:
        """Return how the last rows of those done have converged, for a progress bar."""
        recent = self.rhat[:, max(0, done - RECENT) : done]
        found = recent[~np.isnan(recent)]
        if not found.size:
            return ""
        return f"R-hat {np.median(found):.2f}, under {LIMIT}: {(found < LIMIT).mean():.0%}"

    def of(self, rows: slice, free: Tensor) -> Halves:
        """Return where to add up the chains of some rows, whose holes are `free`."""
        return Halves(self, rows, free)


def joined(parts: Sequence[Convergence]) -> Convergence:
    """Return how the chains of several parts of a table converged, as of one."""
    whole = copy(parts[0])
    whole.rhat = np.concatenate([part.rhat for part in parts], 1)
    whole.stuck, whole.numbers = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("stuck", "numbers")
    )
    return whole


def no_chains(model: TableModel) -> Convergence:
    """Return what there is to say before any chain has run."""
    return Convergence(model, 0, 0)


def warn_unless_converged(found: Convergence) -> None:
    """Warn whoever asked for the draws of stuck chains, and if too few holes have converged."""
    if found.stuck.any():
        rows = found.numbers[found.stuck]
        warnings.warn(
            f"{named_rows(rows)}: a chain never moved, so the values it filled in are its "
            "starting point. Check for values far from all others, and use effort='thorough'",
            StuckWarning,
            stacklevel=_callers_level(),
        )
    if found.checked:
        warn_of_few(found.share)


def warn_of_few(share: float | None) -> None:
    """Warn if too small a share of the holes has converged; None where nobody can tell."""
    if share is not None and share < CONVERGED:
        warnings.warn(
            f"only {share:.0%} of the missing values have converged (R-hat under {LIMIT}): use "
            "effort='thorough', and check diagnose()",
            ConvergenceWarning,
            stacklevel=_callers_level(),
        )


def _callers_level() -> int:
    """Return how many frames up whoever asked lies; scikit-learn wraps `transform`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    return level


class Halves:
    """Sums and sums of squares over the first and the last half of the states."""

    def __init__(self, found: Convergence, rows: slice, free: Tensor) -> None:
        self.found, self.rows, self.free = found, rows, free
        self.half = found.states // 2
        self.sums: list[list[Tensor]] = []

    def add(self, state: int, scores: Tensor) -> None:
        """Take in the scores `(rows * places, width)` of one state; the last one ends it."""
        if not self.found.checked:
            return
        part = 0 if state < self.half else 1
        values = scores.double()
        if state in (0, self.half):
            self.sums = [*self.sums[:part], [torch.zeros_like(values), torch.zeros_like(values)]]
        total, square = self.sums[part]
        total += values
        square += values.square()
        if state == self.found.states - 1:
            self._finish()

    def _finish(self) -> None:
        counts = (self.half, self.found.states - self.half)
        pairs = list(zip(self.sums, counts, strict=True))
        means = torch.stack([total / n for (total, _), n in pairs])
        spreads = [(square - total**2 / n) / (n - 1) for (total, square), n in pairs]
        # Halves, rows, chains, members, scores: places of a row take turns among the members.
        shape = (2, len(self.free), -1, self.found.members, self.free.shape[1])
        means, spreads = means.reshape(shape), torch.stack(spreads).reshape(shape)
        within = spreads.mean((0, 2)).clamp(min=0)
        between = means.transpose(1, 2).flatten(0, 1).var(0)
        rhat = (1 - 1 / self.half + between / within).sqrt()
        # A chain that never moved has not converged, wherever it stands.
        rhat = torch.where(within > 0, rhat, torch.inf)
        rhat = torch.where(self.free[:, None], rhat, torch.nan)
        self.found.rhat[:, self.rows] = rhat.transpose(0, 1).float().cpu().numpy()
