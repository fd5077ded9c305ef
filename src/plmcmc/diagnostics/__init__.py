"""In: a flow and rows. Out: findings and figures."""

from plmcmc.diagnostics.calibration import Calibration, calibrate
from plmcmc.diagnostics.decisions import Decisions, decision_study

__all__ = ["Calibration", "Decisions", "calibrate", "decision_study"]
