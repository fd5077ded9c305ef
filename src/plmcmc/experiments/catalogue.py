"""Every experiment of the paper by its name: where it is, and what it shows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from plmcmc.experiments.study import Experiment

SCALES = ("smoke", "laptop", "full")


class Entry(NamedTuple):
    """A module of this room whose `at(name, scale)` returns the experiment.

    `reads` names the data that it needs, but for a smoke test: see `needs`.
    """

    module: str
    section: str
    summary: str
    reads: str = ""


CATALOGUE = {
    "table1": Entry(
        "digits.table1",
        "6.1, E.1",
        "digits completed by models trained on incomplete digits, RMSE and FID",
        "mnist",
    ),
    "table2": Entry(
        "tables.table2",
        "6.2, E.2",
        "tables with half of their values hidden and filled in, NMSE",
        "uci",
    ),
    "cifar": Entry(
        "images.completion",
        "5.1, D.1",
        "images with the centre missing, completed with Glow",
        "cifar",
    ),
    "celeba": Entry(
        "images.completion", "5.2, D.2", "faces with one half missing, completed with Glow", "faces"
    ),
    "mnist": Entry(
        "digits.mnist",
        "5.3, D.3",
        "digits completed with a flow trained on complete digits",
        "mnist",
    ),
    "training-progress": Entry(
        "digits.training_progress",
        "E.1",
        "training digits as imputed early and late in training",
        "mnist",
    ),
    "efficiency-auxiliary": Entry(
        "efficiency.studies",
        "6.3, E.3",
        "RMSE and acceptance of chains, by scale of the auxiliary density",
        "mnist",
    ),
    "efficiency-perturbation": Entry(
        "efficiency.studies",
        "6.3, E.3",
        "RMSE and acceptance of chains, by scale of the perturbations",
        "mnist",
    ),
    "efficiency-no-resample": Entry(
        "efficiency.studies",
        "E.3",
        "RMSE and acceptance of chains with perturbations only",
        "mnist",
    ),
    "efficiency-resample": Entry(
        "efficiency.studies",
        "E.3",
        "RMSE and acceptance of chains, by scale of the fresh draws",
        "mnist",
    ),
    "decisions": Entry(
        "efficiency.decisions",
        "E.4",
        "how often a flat auxiliary density would overturn a decision",
        "mnist",
    ),
    "proposal": Entry(
        "proposal.diagram",
        "3.2, B",
        "one proposal, drawn in two dimensions",
    ),
}


def experiment_of(name: str, scale: str) -> Experiment:
    """Return an experiment at a scale.

    Raises:
        ValueError: if there is none of that name or scale.
    """
    if name not in CATALOGUE:
        raise ValueError(f"unknown experiment {name!r}: choose one of {', '.join(CATALOGUE)}")
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}; got {scale!r}")
    return import_module(f"plmcmc.experiments.{CATALOGUE[name].module}").at(name, scale)
