"""How far chains have come, in numbers: acceptance, passes and R-hat of what was missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.posterior import Draws

RHAT = 1.1
# As reports name these numbers.
COLUMNS = (
    "flow passes per chain",
    "warm-up passes",
    "seconds",
    "accepted",
    "values at R-hat 1.1 or less",
    "median R-hat",
)


def convergence_of(draws: Draws) -> dict[str, Any]:
    """Return acceptance, passes and R-hat; a value that never moved has not converged."""
    rhat = draws.rhat()[~draws.observed]
    moved = rhat[np.isfinite(rhat)]
    return {
        "acceptance": round(float(np.nanmean(draws.acceptance)), 5),
        "share at R-hat 1.1 or less": round(float((rhat <= RHAT).mean()), 4),
        "R-hat, median": round(float(np.median(moved)), 3) if len(moved) else None,
        "R-hat, largest": round(float(moved.max()), 3) if len(moved) else None,
        "share that moved": round(float(len(moved) / len(rhat)), 4),
        "passes": draws.passes,
        "passes of the warm-up": draws.warmup_passes,
    }


def convergence_cells(numbers: dict[str, Any]) -> list[str]:
    """Return them as cells under `COLUMNS`."""
    middle = numbers["R-hat, median"]
    return [
        f"{numbers['passes']:,}",
        f"{numbers['passes of the warm-up']:,}",
        f"{numbers['seconds']:.0f}",
        f"{numbers['acceptance']:.3f}",
        f"{numbers['share at R-hat 1.1 or less']:.2f}",
        "never moved" if middle is None else f"{middle:.2f}",
    ]


def spent(draws: Draws) -> NDArray[np.float64]:
    """Return the passes that a chain had spent at each of its draws."""
    count = draws.values.shape[1]
    each = (draws.passes - draws.warmup_passes) / count
    return draws.warmup_passes + each * np.arange(1, count + 1)


def share_within(draws: Draws, passes: int) -> float:
    """Return the share of values at R-hat 1.1 or less within so many passes."""
    kept = int((spent(draws) <= passes).sum())
    # Of fewer than four draws there is no R-hat: nothing has converged.
    rhat = replace(draws, values=draws.values[:, :kept]).rhat()[~draws.observed]
    return round(float((rhat <= RHAT).mean()), 4)
