"""A picture of a filled table whose truth is known: each hidden value beside its interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from plmcmc.cli.demo.scores import LEVEL, Trial
from plmcmc.statistics import interval

# Of each column: more would hide each other.
SHOWN = 60
ACROSS = 5
INSIDE, OUTSIDE = "#3d7ea6", "#c8553d"


def truth_picture(path: Path, names: Sequence[str], trial: Trial, seed: int) -> Path:
    """Write hidden values against what was drawn for them: mean and 90% interval, by column."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    if trial.drawn is None:
        raise ValueError(f"{trial.method} has no draws to show")
    rng = np.random.default_rng(seed)
    down = -(-len(names) // ACROSS)
    figure = Figure(figsize=(2.3 * ACROSS, 2.3 * down + 0.7), layout="constrained")
    axes = list(figure.subplots(down, ACROSS, squeeze=False).flat)
    for place, (name, axis) in enumerate(zip(names, axes, strict=False)):
        hidden = rng.permutation(np.flatnonzero(trial.missing[:, place]))[:SHOWN]
        truth, mean = trial.truth[hidden, place], trial.filled[hidden, place]
        low, high = interval(trial.drawn[:, hidden, place], LEVEL)
        inside = (low <= truth) & (truth <= high)
        ends = [min(truth.min(), low.min()), max(truth.max(), high.max())]
        axis.plot(ends, ends, color="#999999", linewidth=0.8, zorder=1)
        for own, colour in ((inside, INSIDE), (~inside, OUTSIDE)):
            axis.vlines(truth[own], low[own], high[own], color=colour, linewidth=0.9, alpha=0.6)
            axis.plot(truth[own], mean[own], ".", color=colour, markersize=4)
        axis.set_title(name.removeprefix("mean "), fontsize=10)
        axis.tick_params(labelsize=7)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    figure.supxlabel("hidden value", fontsize=10)
    figure.supylabel(f"drawn: mean and {LEVEL:.0%} interval", fontsize=10)
    handles = [
        Line2D([], [], color=colour, marker=".", linewidth=0.9, label=words)
        for colour, words in (
            (INSIDE, "interval contains the hidden value"),
            (OUTSIDE, "it does not"),
        )
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, fontsize=9, frameon=False)
    figure.savefig(path, dpi=100)
    return path
