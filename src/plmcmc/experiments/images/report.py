"""The report of completed images: tables, grids of pictures, and how log p went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plmcmc.experiments.convergence import COLUMNS, convergence_cells
from plmcmc.experiments.kept import write_figure
from plmcmc.experiments.pictures import Bytes, strips_of, write_strips
from plmcmc.experiments.study import Found, file_name
from plmcmc.experiments.words import table

# Samples across a sheet, and last draws of a way that are shown.
ACROSS, DRAWN = 8, 3
ERRORS = ("RMSE of a completion", "RMSE of the mean")
Ways = Mapping[str, Found]


def reported(found: Mapping[str, Found], output: Path) -> str:
    """Return the report of all parts that are there; write pictures to a directory."""
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
    return f"**Parts are of {len(flows)} different flows: numbers are not to be compared.**\n\n"


def _samples(heat: str, own: Found, output: Path) -> str:
    path = output / f"samples-{file_name(heat)}.png"
    write_strips(path, strips_of(own.arrays["samples"], ACROSS))
    finite = own.numbers["share that is finite"]
    words = "" if finite == 1 else f" {1 - finite:.1%} of them overflow."
    return f"## Unconditioned samples, {heat}\n\n![samples]({path.name}){words}\n\n"


def _completed(missing: str, ways: Ways, output: Path) -> str:
    name = file_name(missing)
    text = (
        f"## {missing}\n\n"
        + table("", [*COLUMNS, *ERRORS, "log p of last states"], _rows(ways))
        + "\n"
    )
    text += "".join(f"{line}\n\n" for line in _ahead(ways))
    path = write_strips(output / f"{name}.png", list(_strips(ways)))
    text += f"![completions]({path.name})\n\n"
    for way, own in ways.items():
        path = output / f"{name}-{file_name(way)}-progress.png"
        unit = "proposals" if own.numbers["progress"][0] == "0" else "passes"
        images = own.arrays["progress"].swapaxes(0, 1)
        write_strips(path, [("", strip) for strip in images], own.numbers["progress"])
        text += f"{way}, by {unit}:\n\n![progression of {way}]({path.name})\n\n"
    path = _trace(ways, output / f"{name}-trace.png")
    return text + f"![log p by passes]({path.name})\n\n"


def _rows(ways: Ways) -> Iterator[tuple[str, list[str]]]:
    for way, own in ways.items():
        errors = [f"{own.numbers[name]:.4f}" for name in ERRORS]
        height = np.mean(own.numbers["log p, last states, by image"])
        yield way, [*convergence_cells(own.numbers), *errors, f"{height:,.0f}"]


def _ahead(ways: Ways) -> Iterator[str]:
    """Say how far the default's last states are above those of others after as many passes."""
    if "default" not in ways:
        return
    ours = ways["default"].arrays
    for way, own in ways.items():
        if way == "default":
            continue
        theirs = own.arrays
        at = max(0, int((theirs["spent"] <= ours["spent"][-1]).sum()) - 1)
        gap = ours["log p"][-1] - theirs["log p"][at]
        yield (
            f"log p(y_M; x_O) after {theirs['spent'][at]:,.0f} passes, default minus {way}: "
            f"{gap.min():+,.0f} to {gap.max():+,.0f}, above on {int((gap > 0).sum())} of "
            f"{len(gap)} images."
        )


def _strips(ways: Ways) -> Iterator[tuple[str, Bytes]]:
    any_way = next(iter(ways.values())).arrays
    yield "truth", any_way["truth"]
    yield "seen", any_way["seen"]
    for way, own in ways.items():
        if own.numbers["progress"][0] == "0":
            yield f"{way}: start", own.arrays["progress"][0]
        for number, last in enumerate(own.arrays["last"][:DRAWN], 1):
            several = len(own.arrays["last"]) > 1
            yield f"{way}: chain {number}, end" if several else f"{way}: end", last
        yield f"{way}: mean", own.arrays["mean"]


def _trace(ways: Ways, path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes: Any = figure.subplots()
    for number, (way, own) in enumerate(ways.items()):
        lines = axes.plot(
            own.arrays["spent"], own.arrays["log p"], color=f"C{number}", alpha=0.6, lw=0.9
        )
        lines[0].set_label(way)
    axes.set(xlabel="flow passes of a chain, warm-up included", xscale="log")
    axes.set(ylabel="log p(y_M; x_O), mean of chains")
    axes.legend(title="a line is an image", fontsize=8, title_fontsize=8)
    write_figure(path, figure, dpi=120)
    return path
