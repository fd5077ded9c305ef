"""Run an experiment: what is done already is left alone, what is found is kept at once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from plmcmc.disk import check_directory, failing_in_words, locked, write
from plmcmc.experiments.catalogue import CATALOGUE, experiment_of
from plmcmc.experiments.data_check import check_data
from plmcmc.experiments.ledger import ARRAYS, LINES, Ledger
from plmcmc.experiments.markdown import first_few
from plmcmc.experiments.provenance import made_on
from plmcmc.experiments.report import FULL, SMOKE, reported
from plmcmc.experiments.study import Experiment, Found, Place
from plmcmc.imputation.device import device_of

REPORT, SHARED = "report.md", "shared"
# Parts that are named to whoever asks for one that is not there, or whose arrays are lost.
NAMED = 10

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
        only: run only parts whose name has this in it, in capitals or not; `*` stands for
            anything.
        report_only: run nothing, and report what is there.
        progress: show bars; by default on a terminal only.
        say: is told what is done.
    """
    experiment = experiment_of(name, scale)
    device_of(device)
    if report_only and only is not None:
        raise ValueError(f"a report is of all parts that are done: leave out --only {only!r}")
    wanted = [] if report_only else _wanted(experiment, name, only)
    own = Path(output) / f"{name}-{scale}"
    known = None if data is None else Path(data)
    place = Place(own, Path(output) / SHARED, known, device, progress)
    # All that can be refused is refused before a directory is made.
    check_directory(own)
    if not (own / LINES).exists():
        _refuse_nothing(wanted, name, scale, own)
        _refuse_impossible(experiment, wanted)
        check_data(_reads(name, scale), wanted, place)
    with failing_in_words(own):
        own.mkdir(parents=True, exist_ok=True)
    # Two at once would run the same parts, and go on from each other's checkpoints.
    with locked(own / LINES):
        report = _reproduced(experiment, name, scale, wanted, place, say)
    say(f"Written: {own / REPORT}")
    return report


def _reproduced(
    experiment: Experiment, name: str, scale: str, wanted: list[str], place: Place, say: Say
) -> str:
    """Run what is wanted and not done, and report; stopped, report what is there."""
    own, made = place.output, partial(made_on, place.device)
    ledger = Ledger(own, experiment.settings(), experiment.settings_of, made)
    _tell_lost(ledger, say)
    _refuse_nothing(wanted or [*ledger], name, scale, own)
    todo = [part for part in wanted if part not in ledger]
    check_data(_reads(name, scale), todo, place)
    place = replace(place, note=ledger.check_source)

    def report() -> str:
        full = experiment_of(name, FULL)
        text = reported(name, scale, experiment, full, ledger, place)
        write(own / REPORT, text.encode())
        return text

    try:
        _run(experiment, todo, ledger, place, f"{name} ({scale})", say)
    except (Exception, KeyboardInterrupt):
        _tell_kept(experiment, ledger, say)
        if len(ledger):
            # What stopped the run is what is told, whatever else is wrong.
            with suppress(Exception):
                report()
        raise
    return report()


def _reads(name: str, scale: str) -> str:
    return "" if scale == SMOKE else CATALOGUE[name].reads


def _refuse_nothing(parts: list[str], name: str, scale: str, own: Path) -> None:
    """Refuse to report where nothing was run, and nothing is to be."""
    if not parts:
        raise ValueError(
            f"nothing has been run yet in {own}: run `plmcmc reproduce {name} --scale {scale}` "
            "first, with the same -o"
        )


def _tell_lost(ledger: Ledger, say: Say) -> None:
    if ledger.lost:
        say(
            f"To be run again, as their arrays in {ledger.directory / ARRAYS} are lost or "
            f"damaged: {first_few(ledger.lost, NAMED)}"
        )


def _tell_kept(experiment: Experiment, ledger: Ledger, say: Say) -> None:
    parts = experiment.parts()
    done = sum(part in ledger for part in parts)
    say(
        f"{done} of {len(parts)} parts are kept in {ledger.directory}; run the same command again "
        "to resume"
    )


def _wanted(experiment: Experiment, name: str, only: str | None) -> list[str]:
    parts = experiment.parts()
    pattern = re.compile(".*".join(map(re.escape, (only or "").split("*"))), re.IGNORECASE)
    wanted = [part for part in parts if pattern.search(part)]
    if not wanted:
        raise ValueError(
            f"no part of {name} contains {only!r} in its name; its {len(parts)} parts are "
            f"{first_few(parts, NAMED)}"
        )
    return wanted


def _refuse_impossible(experiment: Experiment, parts: list[str]) -> None:
    """Refuse to begin where each part needs a package that is not installed."""
    lacking = _lacking(experiment, parts)
    if parts and len(lacking) == len(parts):
        raise ValueError(
            f"{first_few(parts, NAMED)}: expected {' and '.join(dict.fromkeys(lacking.values()))} "
            "to be installed; it was not found. Install it, or choose other parts with --only"
        )


def _lacking(experiment: Experiment, parts: list[str]) -> dict[str, str]:
    """Return the parts that need packages that are not installed, and these packages."""
    needs = {part: experiment.needs(part) for part in parts}
    return {part: own for part, own in needs.items() if own and find_spec(own) is None}


def _run(
    experiment: Experiment, todo: list[str], ledger: Ledger, place: Place, title: str, say: Say
) -> None:
    """Run parts, and keep what they find; those whose packages are not installed are left out."""
    parts, lacking = experiment.parts(), _lacking(experiment, todo)
    todo = [part for part in todo if part not in lacking]
    for part in ledger:
        _remove(place.checkpoint(part))
    done = sum(part in ledger for part in parts)
    told = f"{title}: {len(todo)} of {len(parts)} parts to run, {done} already done"
    if lacking:
        packages = " and ".join(dict.fromkeys(lacking.values()))
        told += f"; {len(lacking)} left out, as {packages} is not installed"
    say(told)
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


def _shown(found: Found) -> str:
    """Return the first few numbers of a part."""
    pairs = [(k, v) for k, v in found.numbers.items() if isinstance(v, int | float | str)]
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in pairs[:4])
