"""In: arrays. Out: numbers: R-hat, ESS, tests of ranks, scores, Frechet distance, Rubin's rules."""

from plmcmc.statistics.convergence import ess, rhat
from plmcmc.statistics.frechet import FeatureMoments, feature_moments, frechet_distance
from plmcmc.statistics.pooling import Pooled, pool
from plmcmc.statistics.ranks import rank_p_value, shared_rank_p_value
from plmcmc.statistics.scores import coverage, crps, interval, nmse, reconstruction_rmse

__all__ = [
    "FeatureMoments",
    "Pooled",
    "coverage",
    "crps",
    "ess",
    "feature_moments",
    "frechet_distance",
    "interval",
    "nmse",
    "pool",
    "rank_p_value",
    "reconstruction_rmse",
    "rhat",
    "shared_rank_p_value",
]
