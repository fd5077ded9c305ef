"""In: a target and starts. Out: a tuned, frozen kernel, and states to go on from."""

from plmcmc.adaptation.auxiliary import chosen_auxiliary
from plmcmc.adaptation.climb import climb
from plmcmc.adaptation.metric import MetricWarning, pullback
from plmcmc.adaptation.step_size import tune
from plmcmc.adaptation.survey import (
    Survey,
    latent_information,
    marginal_warp,
    spread_of,
    survey,
)
from plmcmc.adaptation.warmup import Tuned, Warmup

__all__ = [
    "MetricWarning",
    "Survey",
    "Tuned",
    "Warmup",
    "chosen_auxiliary",
    "climb",
    "latent_information",
    "marginal_warp",
    "pullback",
    "spread_of",
    "survey",
    "tune",
]
