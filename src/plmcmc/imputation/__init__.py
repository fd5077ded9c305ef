"""In: tables with holes. Out: tables without, and how sure one can be."""

from plmcmc.imputation.diagnosis import Diagnosis
from plmcmc.imputation.imputer import FlowImputer
from plmcmc.imputation.model import EFFORTS, Effort

__all__ = ["EFFORTS", "Diagnosis", "Effort", "FlowImputer"]
