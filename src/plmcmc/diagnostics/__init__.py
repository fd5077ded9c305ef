"""Tests of samplers on a flow and rows, with results in words and figures.

In: a flow and rows. Out: findings and figures.
"""

from plmcmc.diagnostics.calibration import Calibration, calibrate
from plmcmc.diagnostics.decisions import Decisions, decision_study
from plmcmc.diagnostics.exactness import Finding, self_test

__all__ = ["Calibration", "Decisions", "Finding", "calibrate", "decision_study", "self_test"]
