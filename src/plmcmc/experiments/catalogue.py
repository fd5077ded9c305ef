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
        "digits.table1", "6.1, E.1", "digits learned from and completed: RMSE and FID", "mnist"
    ),
    "table2": Entry(
        "tables.table2", "6.2, E.2", "tables learned from and filled with half missing: NMSE", "uci"
    ),
    "cifar": Entry(
        "images.completion", "5.1, D.1", "images without their middle, completed with Glow", "cifar"
    ),
    "celeba": Entry(
        "images.completion", "5.2, D.2", "faces without a half, completed with Glow", "faces"
    ),
    "mnist": Entry(
        "digits.mnist", "5.3, D.3", "digits completed with a flow of whole digits", "mnist"
    ),
    "training-progress": Entry(
        "digits.training_progress",
        "E.1",
        "training digits as imputed early and at the end",
        "mnist",
    ),
    "efficiency-auxiliary": Entry(
        "efficiency.studies",
        "6.3, E.3",
        "RMSE and acceptance of chains: the auxiliary density's scale",
        "mnist",
    ),
    "efficiency-perturbation": Entry(
        "efficiency.studies",
        "6.3, E.3",
        "RMSE and acceptance of chains: the perturbations' scale",
        "mnist",
    ),
    "efficiency-no-resample": Entry(
        "efficiency.studies", "E.3", "RMSE and acceptance of chains: perturbations alone", "mnist"
    ),
    "efficiency-resample": Entry(
        "efficiency.studies",
        "E.3",
        "RMSE and acceptance of chains: the fresh draws' scale",
        "mnist",
    ),
    "decisions": Entry(
        "efficiency.decisions", "E.4", "decisions that a flat auxiliary would overturn", "mnist"
    ),
    "proposal": Entry("proposal.diagram", "3.2, B", "one proposal, drawn in two dimensions"),
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
