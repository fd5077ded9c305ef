"""In: a flow and data. Out: the flow, trained."""

from plmcmc.training.epoch import TrainingError
from plmcmc.training.fit import Fitted, fit_flow

__all__ = ["Fitted", "TrainingError", "fit_flow"]
