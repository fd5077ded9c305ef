"""Every experiment of the paper by its name: where it is, and what it shows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from plmcmc.experiments.study import Experiment

SCALES = ("smoke", "laptop", "full")


class Entry(NamedTuple):
    """A module of this room whose `at(name, scale)` returns the experiment."""

    module: str
    section: str
    summary: str


CATALOGUE = {
    "table2": Entry("table2", "5.2, E.2", "tables learned from and filled with half missing: NMSE"),
}


def experiment_of(name: str, scale: str) -> Experiment:
    """Return an experiment at a scale.

    Raises:
        ValueError: if there is none of that name or scale.
    """
    if name not in CATALOGUE:
        raise ValueError(f"there is no experiment {name!r}: choose one of {', '.join(CATALOGUE)}")
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}; got {scale!r}")
    return import_module(f"plmcmc.experiments.{CATALOGUE[name].module}").at(name, scale)
