"""Pictures of a diagnosis: chains, and what was imputed beside what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from plmcmc.imputation.diagnosis import Diagnosis

Array = NDArray[np.float64]
ACROSS = 3
OBSERVED, IMPUTED = "#7a7a7a", "#c8553d"
BINS = 30


def trace_figure(found: Diagnosis) -> Figure:
    """Draw, for each column with holes, the chains of one missing entry."""
    places = [p for p, drawn in enumerate(found.imputed) if drawn.shape[1]]
    figure, axes = _sheet(len(places))
    for place, axis in zip(places, axes, strict=False):
        # One entry, the first: picked by no one for its looks.
        axis.plot(found.imputed[place][:, 0], linewidth=0.7)
        axis.set_title(f"{found.names[place]}, R-hat {found.rhat[place]:.2f}", fontsize=9)
        _level_ticks(axis, found, place, "y")
        axis.set_xlabel("state", fontsize=8)
    return figure


def density_figure(found: Diagnosis) -> Figure:
    """Draw, for each column with holes, observed and imputed values."""
    places = [p for p, drawn in enumerate(found.imputed) if drawn.shape[1]]
    figure, axes = _sheet(len(places))
    for place, axis in zip(places, axes, strict=False):
        seen, drawn = found.observed[place], found.imputed[place].ravel()
        # A model knows columns of which a table may have no value at all.
        bins = _bins(seen if len(seen) else drawn, found.levels[place])
        for values, colour, words in ((seen, OBSERVED, "observed"), (drawn, IMPUTED, "imputed")):
            weights = np.full(len(values), 1 / max(1, len(values)))
            shown = np.clip(values, bins[0], bins[-1])
            axis.hist(shown, bins, weights=weights, histtype="step", color=colour, label=words)
        axis.set_title(found.names[place], fontsize=9)
        _level_ticks(axis, found, place, "x")
        axis.set_yticks([])
    if len(axes):
        axes[0].legend(fontsize=8)
    return figure


def _sheet(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many axes; the rest of its last line is left out."""
    from matplotlib.figure import Figure

    down = max(1, -(-count // ACROSS))
    figure = Figure(figsize=(3.2 * ACROSS, 2.1 * down), layout="constrained")
    axes = list(figure.subplots(down, ACROSS, squeeze=False).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    for axis in axes:
        axis.tick_params(labelsize=7)
    return figure, axes[:count]


def _bins(values: Array, levels: tuple | None) -> list[float]:
    if levels is not None:
        return [level - 0.5 for level in range(len(levels) + 1)]
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high, BINS + 1).tolist() if high > low else [low - 0.5, low + 0.5]


def _level_ticks(axis: Axes, found: Diagnosis, place: int, which: str) -> None:
    levels = found.levels[place]
    if levels is not None and len(levels) <= 12:
        words = [str(level) for level in levels]
        getattr(axis, f"set_{which}ticks")(range(len(levels)), words)
