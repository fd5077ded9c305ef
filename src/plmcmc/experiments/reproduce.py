"""Run an experiment: what is done already is left alone, what is found is kept at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from plmcmc.disk import write
from plmcmc.experiments.catalogue import CATALOGUE, experiment_of
from plmcmc.experiments.ledger import Ledger
from plmcmc.experiments.study import Found, Place

REPORT, SHARED = "report.md", "shared"

Say = Callable[[str], None]


def reproduce(
    name: str,
    scale: str = "laptop",
    *,
    output: str | Path = "plmcmc-reproduce",
    data: str | Path | None = None,
    device: str = "cpu",
    only: str | None = None,
    progress: bool | None = None,
    say: Say = print,
) -> str:
    """Run an experiment of the paper, and return its report; go on from where it was stopped.

    Args:
        name: one of `plmcmc.experiments.CATALOGUE`.
        scale: `"smoke"` (seconds, data that comes along), `"laptop"` or `"full"` (the paper's).
        output: directory; each experiment has one of its own in it, for each scale.
        data: directory of data sets.
        device: where to compute.
        only: run only parts whose name has this in it.
        progress: show bars; by default on a terminal only.
        say: is told what is done.
    """
    experiment = experiment_of(name, scale)
    own = Path(output) / f"{name}-{scale}"
    shared = Path(output) / SHARED
    ledger = Ledger(own, experiment.settings())
    place = Place(
        own, shared, None if data is None else Path(data), device, progress, ledger.check_source
    )
    parts = experiment.parts()
    wanted = [part for part in parts if only is None or only in part]
    if not wanted:
        raise ValueError(f"no part of {name} has {only!r} in its name; one is {parts[0]!r}")
    todo = [part for part in wanted if part not in ledger]
    for part in ledger:
        _remove(place.checkpoint(part))
    say(f"{name} ({scale}): {len(todo)} of {len(parts)} parts to run, {len(ledger)} done before")
    for number, part in enumerate(todo, 1):
        say(f"[{number}/{len(todo)}] {part}")
        found = experiment.run(part, place)
        ledger.add(part, found)
        _remove(place.checkpoint(part))
        say(f"    {_shown(found)}")
    report = _report(name, scale, experiment.report(ledger, place), len(ledger), len(parts))
    report += "".join(f"- {reading}\n" for reading in experiment.readings)
    write(own / REPORT, report.encode())
    say(f"Written: {own / REPORT}")
    return report


def _remove(checkpoint: Path) -> None:
    """Remove what a part had saved of itself, a file or a directory: its numbers are kept."""
    if checkpoint.is_dir():
        shutil.rmtree(checkpoint)
    else:
        checkpoint.unlink(missing_ok=True)


def _report(name: str, scale: str, body: str, done: int, parts: int) -> str:
    entry = CATALOGUE[name]
    head = f"# {name}: {entry.summary}\n\nSection {entry.section} of the paper; scale {scale}; "
    head += f"{done} of {parts} parts.\n\n{body}\n"
    return head + "## How the paper is read\n\n"


def _shown(found: Found) -> str:
    """Return the first few numbers of a part."""
    pairs = [(k, v) for k, v in found.numbers.items() if isinstance(v, int | float | str)]
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in pairs[:4])
