"""Figures of the studies of efficiency: curves with envelopes, and the means that they end at."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.experiments.axes import logarithmic
from plmcmc.experiments.cache import write_figure
from plmcmc.experiments.efficiency.captions import in_short
from plmcmc.experiments.markdown import PL_MCMC
from plmcmc.experiments.study import Found

OWN = {"Gibbs": "black", "plmcmc": "tab:blue"}
REFERENCE, OTHERS = "tab:red", ("tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan")
# Of curves that lie on one another, later ones are thinner, and let earlier ones show between
# their dashes; marks tell apart what is left.
WIDTHS = (4.2, 3.2, 2.4, 1.8, 1.5, 1.3, 1.2)
DASHES = ("-", (0, (5, 1.5)), (0, (2.5, 1.5)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), "-", "-")
MARKS, MARKED = "osD^vPX", 8
PANELS = {
    "RMSE": "RMSE to the digit",
    "RMSE to the converged mean": "RMSE to the converged mean",
    "acceptance": "acceptance rate",
}
AXES = {"proposals": "proposals", "passes": "flow transformations"}
Runs = Mapping[str, Sequence[Found]]
Curve = NDArray[np.float64]


class Look(NamedTuple):
    """How a curve is told from others."""

    color: str
    linewidth: float
    linestyle: Any
    marker: str
    markevery: tuple[float, float]
    markersize: float = 6.0
    markerfacecolor: str = "white"


def draw_curves(
    path: Path, runs: Runs, reference: str, passes: int, converged: Found | None, chains: int
) -> None:
    """Draw every curve against proposals and against flow passes.

    Args:
        path: where to write it.
        runs: replications of every variant.
        reference: the variant at the paper's defaults: red, as in the paper.
        passes: that PL-MCMC had.
        converged: what chains should come to.
        chains: that curves are means over.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), layout="constrained")
    axes = figure.subplots(2, len(PANELS))
    looks = looks_of(runs, reference)
    for line, (across, words) in zip(axes, AXES.items(), strict=True):
        for panel, (kind, title) in zip(line, PANELS.items(), strict=True):
            for name, own in runs.items():
                # A trajectory is no proposal: it costs as many passes as it has turns.
                if across == "passes" or name != "plmcmc":
                    _envelope(panel, own, across, kind, name, looks[name])
            _lines(panel, kind, converged, chains)
            panel.set(xlabel=words, ylabel=title)
            _scales(panel, across, kind, passes)
    handles, labels = axes[1][1].get_legend_handles_labels()
    title = f"sigma: {PL_MCMC}. {envelopes(map(len, runs.values()))}"
    columns = min(4, len(labels))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=title)
    write_figure(path, figure, dpi=120)


def envelopes(counts: Iterable[int]) -> str:
    """Return what lines and envelopes of so many replications are.

    Example:
        >>> envelopes([10, 10])
        'Lines are means over 10 replications, envelopes show one standard deviation.'
        >>> envelopes([1])
        'Lines show a single replication: there is no envelope.'
    """
    least, most = min(own := list(counts)), max(own)
    if most == 1:
        return "Lines show a single replication: there is no envelope."
    number = most if least == most else f"{least} to {most}"
    words = f"Lines are means over {number} replications, envelopes show one standard deviation"
    return words + ("." if least > 1 else "; none where there is one.")


def _scales(panel: Any, across: str, kind: str, passes: int) -> None:
    if across == "proposals":
        panel.set_xlim(0, passes // 2)
        panel.xaxis.get_major_locator().set_params(integer=True)
    else:
        panel.margins(x=0.02)
        # A warm-up costs many times what a few proposals do.
        logarithmic(panel.xaxis)
        panel.tick_params(axis="x", labelsize=9)
    if kind == "RMSE to the converged mean":
        logarithmic(panel.yaxis)
    else:
        panel.set_ylim(0, None)
    panel.grid(alpha=0.25, which="both")


def looks_of(runs: Iterable[str], reference: str) -> dict[str, Look]:
    """Return how each curve is drawn: none like another, wide ones first."""
    names = list(runs)
    left = iter(OTHERS * len(names))
    given = OWN | {reference: REFERENCE}
    looks = {}
    for number, name in enumerate(names):
        turn = number % len(MARKS)
        # Not all at the same places.
        marked = (turn / len(MARKS) / MARKED, 1 / MARKED)
        colour = given.get(name) or next(left)
        looks[name] = Look(colour, WIDTHS[turn], DASHES[turn], MARKS[turn], marked)
    return looks


def _envelope(
    panel: Any, own: Sequence[Found], across: str, kind: str, name: str, look: Look
) -> None:
    grid, curves = on_a_grid(own, across, kind)
    # A logarithmic axis has no place for the start.
    there = slice(None) if across == "proposals" else grid > 0
    grid, curves = grid[there], curves[:, there]
    middle, spread = middle_and_spread(curves)
    if kind == "acceptance":
        # Of a line that goes up and down, shares of its length are all over it.
        start, step = (max(0, round(share * len(grid))) for share in look.markevery)
        look = look._replace(markevery=(start, max(1, step)))
    panel.plot(grid, middle, label=in_short(name), **look._asdict())
    # Below a tenth of the middle a logarithmic axis has no room.
    low = np.maximum(middle - spread, 0 if kind == "acceptance" else 0.1 * middle)
    panel.fill_between(grid, low, middle + spread, color=look.color, alpha=0.22, linewidth=0)


def middle_and_spread(curves: Curve) -> tuple[Curve, Curve]:
    """Return the mean and the standard deviation over replications `(replications, places)`.

    Of the replications that are there, at each place; one alone has no spread.

    Example:
        >>> middle_and_spread(np.array([[1.0, 5.0], [3.0, np.nan]]))
        (array([2., 5.]), array([1.41421356, 0.        ]))
    """
    count = np.isfinite(curves).sum(0)
    middle = np.nanmean(curves, 0)
    squares = np.nansum(np.square(curves - middle), 0)
    return middle, np.sqrt(squares / np.maximum(count - 1, 1))


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


def _lines(panel: Any, kind: str, converged: Found | None, chains: int) -> None:
    """Draw where a mean of as many exact draws would be."""
    if converged is None or kind == "acceptance":
        return
    off = converged.numbers["RMSE"] if kind == "RMSE" else 0.0
    height = math.hypot(off, converged.numbers["noise"])
    panel.axhline(
        height, color="gray", linestyle="--", linewidth=1, label=f"mean of {chains} exact draws"
    )


def draw_means(path: Path, runs: Runs, converged: Found) -> None:
    """Draw the digit, what is seen of it, the converged mean, and the means of the first runs."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    arrays = converged.arrays
    seen = np.where(arrays["observed"], arrays["digit"], np.nan)
    pictures = {"digit": arrays["digit"], "seen": seen, "converged mean": arrays["mean"]}
    pictures["its standard deviation"] = arrays["deviation"]
    pictures |= {in_short(name): own[0].arrays["mean"] for name, own in runs.items()}
    wide = -(-len(pictures) // 2)
    figure = Figure(figsize=(1.7 * wide, 4.2), layout="constrained")
    cells = list(figure.subplots(2, wide).flat)
    side = round(len(seen) ** 0.5)
    # What is not seen is blue: neither ink nor paper.
    shades = colormaps["gray"].with_extremes(bad="#3b5b8c")
    for cell in cells:
        cell.axis("off")
    for cell, (name, picture) in zip(cells, pictures.items(), strict=False):
        cell.imshow(picture.reshape(side, side), cmap=shades, vmin=0, vmax=1)
        cell.set_title(textwrap.fill(name, 22), fontsize=9)
    write_figure(path, figure, dpi=120)
