"""In: a target and starts. Out: a tuned, frozen kernel, and states to go on from."""

from plmcmc.adaptation.climb import climb
from plmcmc.adaptation.metric import MetricWarning, latent_information, pullback
from plmcmc.adaptation.warmup import Survey, Tuned, Warmup

__all__ = [
    "MetricWarning",
    "Survey",
    "Tuned",
    "Warmup",
    "climb",
    "latent_information",
    "pullback",
]
