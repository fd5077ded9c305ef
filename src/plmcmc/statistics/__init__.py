"""In: arrays. Out: numbers, such as R-hat, effective sample sizes, tests of ranks."""

from plmcmc.statistics.convergence import ess, rhat
from plmcmc.statistics.ranks import rank_p_value, shared_rank_p_value

__all__ = ["ess", "rank_p_value", "rhat", "shared_rank_p_value"]
