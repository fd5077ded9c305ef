"""The report of completed images: tables, grids of pictures, and how log p went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.experiments.axes import logarithmic
from plmcmc.experiments.cache import write_figure
from plmcmc.experiments.convergence import COLUMNS, convergence_cells
from plmcmc.experiments.markdown import OURS, OURS_IN_SHORT, PL_MCMC, table
from plmcmc.experiments.pictures import Bytes, strips_of, write_strips
from plmcmc.experiments.study import Found, file_name

# Samples across a sheet, and last draws of a way that are shown.
ACROSS, DRAWN = 8, 3
ERRORS = ("RMSE of a completion", "RMSE of the mean")
Ways = Mapping[str, Found]
Curve = NDArray[np.float64]
# What each way is called where it is shown, in its order; each has its own colour.
NAMES = {
    "default": OURS,
    "Algorithm 1": PL_MCMC,
    "sampled starts": f"{PL_MCMC}, sampled starts",
    "equal starts": f"{PL_MCMC}, equal starts",
}
COLOURS = {way: f"C{number}" for number, way in enumerate(NAMES)}
UNITS = {"proposals": "proposals", "passes": "flow passes of the chain, including warm-up"}


def reported(found: Mapping[str, Found], output: Path) -> str:
    """Return the report of parts, in their order; write pictures to a directory."""
    groups: dict[str, dict[str, Found]] = {}
    for part, own in found.items():
        missing, way = part.split(", ")
        groups.setdefault(missing, {})[way] = own
    text = _flows(found)
    for missing, ways in groups.items():
        if missing == "samples":
            text += "".join(_samples(heat, own, output) for heat, own in ways.items())
        else:
            text += _completed(missing, ways, output)
    return text


def _flows(found: Mapping[str, Found]) -> str:
    flows = {own.numbers["flow"] for own in found.values()}
    if len(flows) < 2:
        return ""
    return (
        f"**Parts come from {len(flows)} different flows: their numbers cannot be compared.**\n\n"
    )


def _samples(heat: str, own: Found, output: Path) -> str:
    path = output / f"samples-{file_name(heat)}.png"
    write_strips(path, strips_of(own.arrays["samples"], ACROSS))
    finite = own.numbers["share that is finite"]
    words = "" if finite == 1 else f" {1 - finite:.1%} of them overflow."
    return f"## Unconditioned samples, {heat}\n\n![samples]({path.name}){words}\n\n"


def _completed(missing: str, ways: Ways, output: Path) -> str:
    name = file_name(missing)
    text = (
        f"## {in_words(missing)} missing\n\n"
        + table("", [*COLUMNS, *ERRORS, "log p of final states"], _rows(ways))
        + "\n"
    )
    text += "".join(f"{line}\n\n" for line in _ahead(ways))
    path = write_strips(output / f"{name}.png", list(_strips(ways)))
    text += f"![completions]({path.name})\n\n"
    for way, own in ways.items():
        path = output / f"{name}-{file_name(way)}-progress.png"
        unit = "proposals" if own.numbers["progress"][0] == "0" else "passes"
        images = own.arrays["progress"].swapaxes(0, 1)
        strips = [("", strip) for strip in images]
        write_strips(path, strips, own.numbers["progress"], UNITS[unit])
        text += f"{NAMES[way]}, by {unit}:\n\n![progression, {way}]({path.name})\n\n"
    path = _trace(ways, output / f"{name}-trace.png")
    return text + f"![log p by passes]({path.name})\n\n"


def in_words(missing: str) -> str:
    """Return what is missing, as a heading has it.

    Example:
        >>> in_words("hole 8"), in_words("right half")
        ('The central 8 x 8 pixels', 'The right half')
    """
    side = missing.removeprefix("hole ")
    return f"The {missing}" if side == missing else f"The central {side} x {side} pixels"


def _rows(ways: Ways) -> Iterator[tuple[str, list[str]]]:
    for way, own in ways.items():
        errors = [f"{own.numbers[name]:.4f}" for name in ERRORS]
        height = np.mean(own.numbers["log p, last states, by image"])
        yield NAMES[way], [*convergence_cells(own.numbers), *errors, f"{height:,.0f}"]


def _ahead(ways: Ways) -> Iterator[str]:
    """Say how far the default's states are above those of others, and after how many passes."""
    if "default" not in ways:
        return
    ours = ways["default"].arrays
    for way, own in ways.items():
        if way == "default":
            continue
        theirs = own.arrays
        one, other, even = meeting(ours["spent"], theirs["spent"])
        gap = ours["log p"][one] - theirs["log p"][other]
        counts = f"{ours['spent'][one]:,.0f} and {theirs['spent'][other]:,.0f}"
        when = (
            "after equally many passes" if even else "at their ends, not after equally many passes"
        )
        yield (
            f"log p(y_M; x_O) of the {OURS_IN_SHORT} minus that of {NAMES[way]}, {when} "
            f"({counts}): {gap.min():+,.0f} to {gap.max():+,.0f}, higher on "
            f"{int((gap > 0).sum())} of {len(gap)} images."
        )


def meeting(ours: Curve, theirs: Curve) -> tuple[int, int, bool]:
    """Return a state of each chain to compare, and whether they are after as many passes.

    The last state of ours that the other chain has as many passes for, and the first of its states
    that had them. Where there is none, both chains' ends.

    Args:
        ours: passes at each of our states, rising.
        theirs: at each of the other chain's.

    Example:
        >>> meeting(np.array([30, 40]), np.array([10, 20, 35, 45]))
        (1, 3, True)
        >>> meeting(np.array([30, 40]), np.array([10, 20, 35]))
        (0, 2, True)
        >>> meeting(np.array([30, 40]), np.array([10, 20]))
        (1, 1, False)
    """
    one = int(np.searchsorted(ours, theirs[-1], side="right")) - 1
    if one < 0:
        return len(ours) - 1, len(theirs) - 1, False
    return one, int(np.searchsorted(theirs, ours[one])), True


def _strips(ways: Ways) -> Iterator[tuple[str, Bytes]]:
    any_way = next(iter(ways.values())).arrays
    yield "truth", any_way["truth"]
    yield "seen", any_way["seen"]
    for way, own in ways.items():
        # In two lines: what is drawn by whom, and what of it.
        who, _, begun = NAMES[way].partition(", ")
        name = f"{who}\n{begun}{': ' if begun else ''}"
        if own.numbers["progress"][0] == "0":
            yield f"{name}start", own.arrays["progress"][0]
        for number, last in enumerate(own.arrays["last"][:DRAWN], 1):
            several = len(own.arrays["last"]) > 1
            yield f"{name}chain {number}, end" if several else f"{name}end", last
        yield f"{name}mean", own.arrays["mean"]


def _trace(ways: Ways, path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes: Any = figure.subplots()
    for way, own in ways.items():
        lines = axes.plot(
            own.arrays["spent"], own.arrays["log p"], color=COLOURS[way], alpha=0.6, lw=0.9
        )
        lines[0].set_label(NAMES[way])
    axes.set(xlabel="flow passes of a chain, including warm-up")
    axes.set(ylabel="log p(y_M; x_O), mean of chains")
    logarithmic(axes.xaxis)
    # Beside the lines, not upon them.
    figure.legend(
        loc="outside lower center",
        ncols=2,
        title="one line per image",
        fontsize=8,
        title_fontsize=8,
    )
    write_figure(path, figure, dpi=120)
    return path
