"""Run an experiment: what is done already is left alone, what is found is kept at once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from plmcmc.disk import check_directory, failing_in_words, locked, write
from plmcmc.experiments.catalogue import CATALOGUE, experiment_of
from plmcmc.experiments.ledger import LINES, Ledger
from plmcmc.experiments.study import Experiment, Found, Place

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
    report_only: bool = False,
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
        only: run only parts whose name has this in it; `*` stands for anything.
        report_only: run nothing, and report what is there.
        progress: show bars; by default on a terminal only.
        say: is told what is done.
    """
    experiment = experiment_of(name, scale)
    wanted = [] if report_only else _wanted(experiment, name, only)
    own = Path(output) / f"{name}-{scale}"
    check_directory(own)
    with failing_in_words(own):
        own.mkdir(parents=True, exist_ok=True)
    # Two at once would run the same parts, and go on from each other's checkpoints.
    with locked(own / LINES):
        ledger = Ledger(own, experiment.settings(), experiment.settings_of)
        known, at = None if data is None else Path(data), Path(output) / SHARED
        place = Place(own, at, known, device, progress, ledger.check_source)
        _run(experiment, wanted, ledger, place, f"{name} ({scale})", say)
        body = experiment.report(ledger, place)
        parts = experiment.parts()
        report = _report(name, scale, body, sum(part in ledger for part in parts), len(parts))
        report += "".join(f"- {reading}\n" for reading in experiment.readings)
        write(own / REPORT, report.encode())
    say(f"Written: {own / REPORT}")
    return report


def _wanted(experiment: Experiment, name: str, only: str | None) -> list[str]:
    parts = experiment.parts()
    pattern = re.compile(".*".join(map(re.escape, (only or "").split("*"))))
    wanted = [part for part in parts if pattern.search(part)]
    if not wanted:
        raise ValueError(f"no part of {name} has {only!r} in its name; one is {parts[0]!r}")
    return wanted


def _run(
    experiment: Experiment, wanted: list[str], ledger: Ledger, place: Place, title: str, say: Say
) -> None:
    """Run the parts that are not done, and keep what they find."""
    todo, parts = [part for part in wanted if part not in ledger], experiment.parts()
    for part in ledger:
        _remove(place.checkpoint(part))
    done = sum(part in ledger for part in parts)
    say(f"{title}: {len(todo)} of {len(parts)} parts to run, {done} done before")
    for number, part in enumerate(todo, 1):
        say(f"[{number}/{len(todo)}] {part}")
        found = experiment.run(part, place)
        ledger.add(part, found)
        _remove(place.checkpoint(part))
        say(f"    {_shown(found)}")


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
