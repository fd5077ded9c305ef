"""In: a flow and data. Out: the flow, trained."""

from plmcmc.training.divergence import FaultWarning, TrainingError
from plmcmc.training.fit import Fitted, bits_per_value, fit_flow
from plmcmc.training.mcem import FittedEM, MonteCarloEM
from plmcmc.training.presets import Preset, double, paper, paper_mnist, undouble
from plmcmc.training.schedule import EMSchedule

__all__ = [
    "EMSchedule",
    "FaultWarning",
    "Fitted",
    "FittedEM",
    "MonteCarloEM",
    "Preset",
    "TrainingError",
    "bits_per_value",
    "double",
    "fit_flow",
    "paper",
    "paper_mnist",
    "undouble",
]
