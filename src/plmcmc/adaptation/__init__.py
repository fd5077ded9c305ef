"""In: a target and starts. Out: a tuned, frozen kernel, and states to go on from.

`warmup` is the default sampler's, from end to end; the files that it calls are its parts. Latent
methods tune a `step_size` and the scale of their `auxiliary`; evidence comes from `annealing`.
"""

from plmcmc.adaptation.auxiliary import chosen_auxiliary
from plmcmc.adaptation.climb import climb
from plmcmc.adaptation.metric import MetricWarning
from plmcmc.adaptation.step_size import tune
from plmcmc.adaptation.survey import (
    Survey,
    latent_information,
    marginal_warp,
    spread_of,
    survey,
)
from plmcmc.adaptation.warmup import Warmup

__all__ = [
    "MetricWarning",
    "Survey",
    "Warmup",
    "chosen_auxiliary",
    "climb",
    "latent_information",
    "marginal_warp",
    "spread_of",
    "survey",
    "tune",
]
