"""In: tables with holes. Out: tables without, and how sure one can be."""

from plmcmc.imputation.diagnosis import Diagnosis
from plmcmc.imputation.effort import EFFORTS, Effort
from plmcmc.imputation.imputer import FlowImputer

__all__ = ["EFFORTS", "Diagnosis", "Effort", "FlowImputer"]
