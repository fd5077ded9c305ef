"""In: arrays. Out: numbers, such as R-hat and effective sample sizes."""

from plmcmc.statistics.convergence import ess, rhat

__all__ = ["ess", "rhat"]
