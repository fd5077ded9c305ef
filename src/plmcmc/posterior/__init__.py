"""In: a flow and rows with holes. Out: `Draws` from p(x_M | x_O)."""

from plmcmc.posterior import methods
from plmcmc.posterior.batch import Method
from plmcmc.posterior.conditional import Conditional, condition
from plmcmc.posterior.draws import Draws
from plmcmc.posterior.evidence import Evidence
from plmcmc.posterior.memory import MemoryWarning
from plmcmc.posterior.methods import METHODS
from plmcmc.posterior.quality_warnings import (
    BiasedWarning,
    ConvergenceWarning,
    EvidenceWarning,
    StuckWarning,
)

__all__ = [
    "METHODS",
    "BiasedWarning",
    "Conditional",
    "ConvergenceWarning",
    "Draws",
    "Evidence",
    "EvidenceWarning",
    "MemoryWarning",
    "Method",
    "StuckWarning",
    "condition",
    "methods",
]
