"""In: a flow and data. Out: the flow, trained."""

from plmcmc.training.epoch import TrainingError
from plmcmc.training.fit import Fitted, fit_flow
from plmcmc.training.mcem import FittedEM, MonteCarloEM, Schedule
from plmcmc.training.presets import Preset, double, paper, paper_mnist, undouble

__all__ = [
    "Fitted",
    "FittedEM",
    "MonteCarloEM",
    "Preset",
    "Schedule",
    "TrainingError",
    "double",
    "fit_flow",
    "paper",
    "paper_mnist",
    "undouble",
]
