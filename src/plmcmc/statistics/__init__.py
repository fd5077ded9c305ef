"""In: arrays. Out: numbers: R-hat, ESS, tests of ranks, scores, Rubin's rules."""

from plmcmc.statistics.convergence import ess, rhat
from plmcmc.statistics.pooling import Pooled, pool
from plmcmc.statistics.ranks import rank_p_value, shared_rank_p_value
from plmcmc.statistics.scores import coverage, crps, nmse

__all__ = [
    "Pooled",
    "coverage",
    "crps",
    "ess",
    "nmse",
    "pool",
    "rank_p_value",
    "rhat",
    "shared_rank_p_value",
]
