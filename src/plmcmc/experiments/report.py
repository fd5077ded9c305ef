"""The report of an experiment: what was run, tables, how the paper is read, where numbers are from.

What was run is told beside `full`, whose settings are the paper's but for the readings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from plmcmc.experiments.catalogue import CATALOGUE
from plmcmc.experiments.ledger import Ledger
from plmcmc.experiments.markdown import table
from plmcmc.experiments.provenance import where_from
from plmcmc.experiments.study import Experiment, Place

FULL, SMOKE = "full", "smoke"
# Characters of a setting that are shown.
SHOWN = 48
ONLY_RUNS = (
    "**This only shows that the code runs, on bundled data: its numbers cannot be compared with "
    "the paper's.**\n\n"
)


def reported(
    name: str, scale: str, experiment: Experiment, full: Experiment, ledger: Ledger, place: Place
) -> str:
    """Return the report of all parts that are there; its figures are written.

    Args:
        name: of the experiment.
        scale: at which it was run.
        experiment: its settings.
        full: those of the scale `full`.
        ledger: parts that are there.
        place: where figures go.
    """
    entry, parts = CATALOGUE[name], experiment.parts()
    done = sum(part in ledger for part in parts)
    text = f"# {name}: {entry.summary}\n\nSection {entry.section} of the paper; scale {scale}; "
    text += f"{done} of {len(parts)} parts.\n\n"
    text += f"## What was run\n\n{ONLY_RUNS if scale == SMOKE else ''}{_settings(experiment, full)}"
    body = experiment.report(ledger, place)
    text += ("\n" if body.startswith("## ") else "\n## Results\n\n") + body
    text += "\n## How we read the paper (at full scale)\n\n"
    text += "".join(f"- {reading}\n" for reading in experiment.readings)
    return text + f"\n## Where the numbers come from\n\n{where_from(ledger.made)}"


def _settings(experiment: Experiment, full: Experiment) -> str:
    rows = list(differing(asdict(experiment), asdict(full)))
    if not rows:
        return "The settings of `full`: those of the paper, apart from the choices listed below.\n"
    told = (
        "Settings that differ from `full`, which uses those of the paper apart from the choices "
        "listed "
    )
    told += "below.\n\n"
    shown = ((own, [_shown(here), _shown(there)]) for own, here, there in rows)
    return told + table("setting", ["here", "`full`"], shown)


def differing(here: Any, full: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield settings that differ, those of settings within settings by names with dots."""
    if isinstance(here, dict) and isinstance(full, dict):
        for key in here.keys() | full.keys() if here.keys() != full.keys() else here:
            own = f"{name}.{key}" if name else str(key)
            yield from differing(here.get(key), full.get(key), own)
    elif here != full:
        yield name, here, full


def _shown(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, list | tuple) and not value:
        return "none"
    if isinstance(value, list | tuple):
        value = ", ".join(f"{own:.4g}" if isinstance(own, float) else str(own) for own in value)
    text = str(value).replace("|", "/")
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
