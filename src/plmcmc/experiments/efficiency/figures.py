"""Figures of the studies of efficiency: curves with envelopes, and the means that they end at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.experiments.kept import write_figure
from plmcmc.experiments.study import Found

OWN = {"Gibbs": "black", "plmcmc": "tab:blue"}
REFERENCE, OTHERS = "tab:red", ("tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan")
PANELS = {
    "RMSE": "RMSE to the digit",
    "RMSE to the converged mean": "RMSE to the converged mean",
    "acceptance": "acceptance rate",
}
Runs = Mapping[str, Sequence[Found]]
Curve = NDArray[np.float64]


def draw_curves(
    path: Path, runs: Runs, reference: str, passes: int, converged: Found | None
) -> None:
    """Draw every curve against proposals and against flow passes.

    Args:
        path: where to write it.
        runs: replications of every variant.
        reference: the variant at the paper's defaults: red, as in the paper.
        passes: that PL-MCMC had.
        converged: what chains should come to.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7.4), layout="constrained")
    axes = figure.subplots(2, len(PANELS))
    colours = _colours(runs, reference)
    for line, (across, words) in zip(axes, AXES.items(), strict=True):
        for panel, (kind, title) in zip(line, PANELS.items(), strict=True):
            for name, own in runs.items():
                # A trajectory is no proposal: it costs as many passes as it has turns.
                if across == "passes" or name != "plmcmc":
                    _envelope(panel, own, across, kind, name, colours[name])
            _lines(panel, kind, converged)
            panel.margins(x=0)
            panel.set(xlabel=words, ylabel=title)
            panel.set_xlim(0, passes // 2 if across == "proposals" else None)
            if kind == "RMSE to the converged mean":
                _logarithmic(panel)
            else:
                panel.set_ylim(0, None)
            panel.grid(alpha=0.25, which="both")
    handles, labels = axes[1][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(7, len(labels)))
    write_figure(path, figure, dpi=120)


def _logarithmic(panel: Any) -> None:
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_formatter("")


AXES = {"proposals": "proposals", "passes": "flow transformations"}


def _colours(runs: Runs, reference: str) -> dict[str, str]:
    left = iter(OTHERS * len(runs))
    given = OWN | {reference: REFERENCE}
    return {name: given.get(name) or next(left) for name in runs}


def _envelope(
    panel: Any, own: Sequence[Found], across: str, kind: str, name: str, colour: str
) -> None:
    grid, curves = on_a_grid(own, across, kind)
    middle, spread = np.nanmean(curves, 0), np.nanstd(curves, 0, ddof=1 if len(own) > 1 else 0)
    panel.plot(grid, middle, color=colour, label=name, linewidth=1.6)
    # Below a tenth of the middle a logarithmic axis has no room.
    low = np.maximum(middle - spread, 0 if kind == "acceptance" else 0.1 * middle)
    panel.fill_between(grid, low, middle + spread, color=colour, alpha=0.22, linewidth=0)


def on_a_grid(own: Sequence[Found], across: str, kind: str) -> tuple[Curve, Curve]:
    """Return curves of all replications at the same places: where all of them have been."""
    places = [run.arrays[across].astype(np.float64) for run in own]
    first = 1 if kind == "acceptance" else 0
    low, high = max(own[first] for own in places), min(own[-1] for own in places)
    grid = np.linspace(low, max(low, high), min(map(len, places)) - first)
    pairs = zip(places, own, strict=True)
    return grid, np.stack(
        [np.interp(grid, place[first:], run.arrays[kind][first:]) for place, run in pairs]
    )


def _lines(panel: Any, kind: str, converged: Found | None) -> None:
    """Draw where a mean of as many exact draws would be."""
    if converged is None or kind == "acceptance":
        return
    off = converged.numbers["RMSE"] if kind == "RMSE" else 0.0
    height = math.hypot(off, converged.numbers["noise"])
    panel.axhline(height, color="gray", linestyle="--", linewidth=1, label="as many exact draws")


def draw_means(path: Path, runs: Runs, converged: Found) -> None:
    """Draw the digit, what is seen of it, the converged mean, and the means of the first runs."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    arrays = converged.arrays
    seen = np.where(arrays["observed"], arrays["digit"], np.nan)
    pictures = {"digit": arrays["digit"], "seen": seen, "converged mean": arrays["mean"]}
    pictures["its deviation"] = arrays["deviation"]
    pictures |= {name: own[0].arrays["mean"] for name, own in runs.items()}
    wide = -(-len(pictures) // 2)
    figure = Figure(figsize=(1.7 * wide, 4.0), layout="constrained")
    cells = list(figure.subplots(2, wide).flat)
    side = round(len(seen) ** 0.5)
    # What is not seen is blue: neither ink nor paper.
    shades = colormaps["gray"].with_extremes(bad="#3b5b8c")
    for cell in cells:
        cell.axis("off")
    for cell, (name, picture) in zip(cells, pictures.items(), strict=False):
        cell.imshow(picture.reshape(side, side), cmap=shades, vmin=0, vmax=1)
        cell.set_title(name, fontsize=9)
    write_figure(path, figure, dpi=120)
