"""What draws of completed images come to: numbers of some images, pictures of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.experiments.convergence import convergence_of, share_within
from plmcmc.experiments.pictures import as_bytes, covered
from plmcmc.flows import Preprocessed, home, log_prob, while_sampling
from plmcmc.posterior import Draws

Array = NDArray[np.floating]
# Passes of a chain by which convergence is looked at, too.
PASSES = (5_000, 10_000, 20_000)
# Completions whose density is worked out at once.
AT_ONCE = 256


def rows_of(draws: Draws, rows: slice) -> Draws:
    """Return the draws of some rows."""
    return replace(
        draws,
        values=draws.values[:, :, rows],
        observed=draws.observed[rows],
        acceptance=draws.acceptance[:, rows],
    )


def numbers_of(draws: Draws, truth: Array, levels: int) -> dict[str, Any]:
    """Return convergence and errors; errors are on a scale of 0 to 1."""
    hidden = ~draws.observed
    early = {str(passes): share_within(draws, passes) for passes in PASSES}
    return convergence_of(draws) | {
        "share within passes": early,
        "share by image": [_share(draws, row) for row in range(len(hidden))],
        "RMSE of a completion": round(_error(draws.values[:, -1], truth, hidden) / levels, 5),
        "RMSE of the mean": round(_error(draws.mean(), truth, hidden) / levels, 5),
    }


def _share(draws: Draws, row: int) -> float:
    return convergence_of(rows_of(draws, slice(row, row + 1)))["share at R-hat 1.1 or less"]


def _error(filled: Array, truth: Array, hidden: NDArray[np.bool_]) -> float:
    return float(np.sqrt(np.square(filled - truth)[..., hidden].mean()))


@torch.no_grad()
def heights(flow: Preprocessed, values: Array) -> NDArray[np.float64]:
    """Return log p(y_M; x_O) of completions `(chains, draws, rows, ...)`."""
    flat = torch.as_tensor(values).flatten(0, 2).split(AT_ONCE)
    where = home(flow)
    with while_sampling():
        found = torch.cat([log_prob(flow, where.bring(part)).cpu() for part in flat])
    return found.reshape(values.shape[:3]).numpy()


def pictures_of(
    draws: Draws, truth: Array, levels: int, initial: Array | None, steps: Sequence[int]
) -> Mapping[str, NDArray[Any]]:
    """Return pictures: what is true, seen, drawn last by a few chains, their mean, a progression.

    Args:
        draws: of the images to show.
        truth: those images.
        levels: how many values a pixel takes.
        initial: where the first chain began, if that is to be shown.
        steps: draws of the first chain that make up the progression.
    """
    whole = as_bytes(truth, levels - 1)
    progress = list(draws.values[0, list(steps)])
    progress = progress if initial is None else [initial, *progress]
    return {
        "truth": whole,
        "seen": covered(whole, draws.observed),
        "last": as_bytes(draws.values[:, -1], levels - 1),
        "mean": as_bytes(draws.mean(), levels - 1),
        "progress": as_bytes(np.stack(progress), levels - 1),
    }
