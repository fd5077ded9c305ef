"""The diagram of one proposal: latent space, data space, and the conditional density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plmcmc.experiments.cache import write_figure
from plmcmc.experiments.study import Found

NOW, NEW, LINE = "tab:blue", "tab:red", "tab:green"
# A state of the chain in four guises, by name.
Place = Mapping[str, Any]
# Radii of the circles that hold 10%, 50%, 90% and 99% of a normal's mass in the plane.
CIRCLES = tuple(float(np.sqrt(-2 * np.log(1 - mass))) for mass in (0.1, 0.5, 0.9, 0.99))


def draw_proposal(path: Path, found: Found, trained: str) -> None:
    """Draw where the proposal goes: on the left as latents, on the right as data.

    The green line is the same in both: all that agrees with the observed value.

    Args:
        path: where to write it.
        found: what is drawn.
        trained: what the flow is.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes: Any = figure.subplot_mosaic(
        [["latent", "data"], ["latent", "conditional"]], height_ratios=(3, 1), width_ratios=(1, 1.1)
    )
    axes["conditional"].sharex(axes["data"])
    _latents(axes["latent"], found)
    _data(axes["data"], found)
    _conditional(axes["conditional"], found)
    chance = found.numbers["accept probability"]
    figure.suptitle(
        f"One PL-MCMC proposal: log ratio {found.numbers['log ratio']:+.2f}, "
        f"accepted with probability {chance:.2f}\n"
        f"f: {trained}"
    )
    write_figure(path, figure, dpi=130)


def _latents(panel: Any, found: Found) -> None:
    from matplotlib.patches import Circle

    now, new = found.numbers["current"], found.numbers["proposed"]
    for radius in CIRCLES:
        panel.add_patch(Circle((0, 0), radius, fill=False, color="0.75", linewidth=0.8))
    panel.plot(*found.arrays["line"].T, color=LINE, linewidth=1.2)
    _moves(panel, now, new, "latent", "encoded")
    words = (r"$\xi$", r"$\xi'$", r"$f^{-1}(y_M; x_O)$", r"$f^{-1}(y'_M; x_O)$")
    _names(panel, now, new, ("latent", "encoded"), words)
    reach = 1.08 * CIRCLES[-1]
    panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    panel.set_title("latent space: 1. propose nearby; 4. encode the completed point", fontsize=10)
    panel.set(xlabel=r"$\xi_1$", ylabel=r"$\xi_2$")


def _data(panel: Any, found: Found) -> None:
    now, new = found.numbers["current"], found.numbers["proposed"]
    arrays, seen = found.arrays, found.numbers["x_O"]
    levels = np.linspace(0, arrays["density"].max(), 13)[1:]
    panel.contourf(
        arrays["across"], arrays["up"], arrays["density"], levels=levels, cmap="Greys", alpha=0.7
    )
    panel.axhline(seen, color=LINE, linewidth=1.2)
    _moves(panel, now, new, "decoded", "completion")
    words = (r"$y = f(\xi)$", r"$y' = f(\xi')$", r"$(y_M; x_O)$", r"$(y'_M; x_O)$")
    _names(panel, now, new, ("decoded", "completion"), words)
    panel.annotate(
        "$x_O$",
        (arrays["across"][-1], seen),
        xytext=(-4, 3),
        textcoords="offset points",
        color=LINE,
        ha="right",
        fontsize=12,
    )
    panel.set(ylabel="observed coordinate", ylim=(arrays["up"][0], arrays["up"][-1]))
    panel.tick_params(labelbottom=False)
    panel.set_title("data space: 2. decode; 3. insert observed values", fontsize=10)


def _conditional(panel: Any, found: Found) -> None:
    across, height = found.arrays["across"], found.arrays["conditional"]
    panel.fill_between(across, height, color=LINE, alpha=0.25, linewidth=0)
    panel.plot(across, height, color=LINE, linewidth=1.2)
    for name, colour in (("current", NOW), ("proposed", NEW)):
        place = found.numbers[name]["completion"][0]
        panel.plot([place] * 2, [0, np.interp(place, across, height)], color=colour, linewidth=2)
    panel.set(xlabel="missing coordinate", ylabel=r"$p(y_M \mid x_O)$")
    panel.set(xlim=(across[0], across[-1]), ylim=(0, None))


def _moves(panel: Any, now: Place, new: Place, first: str, then: str) -> None:
    """Draw the proposal, and where each of the two states goes from there."""
    _arrow(panel, now[first], new[first], NEW, "-")
    for own, colour in ((now, NOW), (new, NEW)):
        _arrow(panel, own[first], own[then], colour, ":")
        panel.plot(*own[then], "s", color=colour, markersize=6, markerfacecolor="white")
        panel.plot(*own[first], "o", color=colour, markersize=8)


def _arrow(
    panel: Any, tail: Sequence[float], head: Sequence[float], colour: str, style: str
) -> None:
    shape = {"arrowstyle": "-|>", "color": colour, "linestyle": style, "shrinkA": 4, "shrinkB": 4}
    panel.annotate("", xy=head, xytext=tail, arrowprops=shape | {"linewidth": 1.4})


def _names(
    panel: Any, now: Place, new: Place, kinds: tuple[str, str], words: Sequence[str]
) -> None:
    """Name both states' two places, each on the side that its own arrow does not take."""
    from matplotlib.patheffects import withStroke

    first, then = kinds
    ends = [(own[a], own[b]) for a, b in ((first, then), (then, first)) for own in (now, new)]
    for (place, other), text, colour in zip(ends, words, (NOW, NEW) * 2, strict=True):
        away = np.subtract(place, other)
        across, up = 10 * away / max(1e-9, float(np.hypot(*away)))
        panel.annotate(
            text,
            place,
            xytext=(across, up),
            textcoords="offset points",
            ha="left" if across >= 0 else "right",
            va="bottom" if up >= 0 else "top",
            color=colour,
            fontsize=12,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
