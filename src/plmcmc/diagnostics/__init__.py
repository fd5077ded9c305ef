"""In: a flow and draws. Out: findings and figures."""

from plmcmc.diagnostics.decisions import Decisions, decision_study

__all__ = ["Decisions", "decision_study"]
