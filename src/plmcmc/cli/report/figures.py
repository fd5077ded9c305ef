"""Pictures of a report, as PNG."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.imputation.diagnosis import Diagnosis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Rows in the picture of patterns, and lines of it: one may stand for several rows.
PATTERN_ROWS, LINES = 5000, 400
# Columns whose names fit under it.
NAMED = 50
# Columns with a picture of their own.
SHOWN = 24
LONGEST_NAME = 28
SEEN, MISSING = "#dfe5ec", "#c8553d"


def pattern_png(names: Sequence[str], missing: NDArray[np.bool_]) -> bytes:
    """Draw which cells are missing, rows of one pattern together, the most frequent at the top."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    if len(missing) > PATTERN_ROWS:
        missing = missing[np.random.default_rng(0).permutation(len(missing))[:PATTERN_ROWS]]
    width = float(np.clip(0.3 * len(names) + 1.0, 4.0, 10.0))
    figure = Figure(figsize=(width, 4.6), layout="constrained")
    axis = figure.subplots()
    colours = LinearSegmentedColormap.from_list("cells", [SEEN, MISSING])
    lines = _lines(_by_pattern(missing))
    extent = (-0.5, len(names) - 0.5, len(missing), 0)
    axis.imshow(
        lines, colours, aspect="auto", vmin=0, vmax=1, interpolation="nearest", extent=extent
    )
    if len(names) <= NAMED:
        named = [short(name) for name in names]
        axis.set_xticks(range(len(names)), named, rotation=60, ha="right", fontsize=8)
        axis.set_xticks(np.arange(0.5, len(names) - 1), minor=True)
        axis.grid(which="minor", axis="x", color="white", linewidth=0.8)
        axis.tick_params(axis="x", which="both", length=0)
    else:
        axis.set_xlabel(f"{len(names)} columns, in the order of the file", fontsize=8)
    axis.set_ylabel("rows", fontsize=8)
    axis.tick_params(axis="y", labelsize=8)
    for spine in axis.spines.values():
        spine.set_visible(False)
    return png(figure)


def most_holes(found: Diagnosis) -> Diagnosis:
    """Return what was found of the columns with holes, at most `SHOWN`: those with the most."""
    places = [place for place, drawn in enumerate(found.imputed) if drawn.shape[1]]
    most = sorted(sorted(places, key=lambda place: -found.holes[place])[:SHOWN])
    arrays = ("holes", "rhat", "converged", "ess", "coverage", "hidden")
    tuples = ("kinds", "observed", "imputed")
    return replace(
        found,
        names=tuple(short(found.names[place]) for place in most),
        levels=tuple(_short_levels(found.levels[place]) for place in most),
        **{name: getattr(found, name)[most] for name in arrays},
        **{name: tuple(getattr(found, name)[place] for place in most) for name in tuples},
    )


def png(figure: Figure) -> bytes:
    """Return a figure as PNG, names as they are written."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        # A name may hold a $, which would begin mathematics.
        text.set_parse_math(False)
    content = io.BytesIO()
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(content, format="png", dpi=110, pil_kwargs={"optimize": True})
    return content.getvalue()


def _by_pattern(missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    patterns, which, counts = np.unique(missing, axis=0, return_inverse=True, return_counts=True)
    # By how frequent a pattern is, then by how much it misses; np.unique has sorted the rest.
    order = np.lexsort((patterns.sum(1), -counts))
    rank = np.argsort(order)
    return missing[np.argsort(rank[which.reshape(-1)], kind="stable")]


def _lines(missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return shares of missing cells in as many lines as the picture has room for, or fewer."""
    starts = np.unique(np.linspace(0, len(missing), min(LINES, len(missing)) + 1).astype(int))
    counts = np.add.reduceat(missing.astype(float), starts[:-1], axis=0)
    return counts / np.diff(starts)[:, None]


def _short_levels(levels: tuple[Any, ...] | None) -> tuple[str, ...] | None:
    return None if levels is None else tuple(short(str(level)) for level in levels)


def short(name: str) -> str:
    """Return a name as far as there is room for it."""
    name = " ".join(name.split())
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
