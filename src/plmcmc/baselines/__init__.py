"""In: tables or images with holes. Out: the same without, by other methods."""

from plmcmc.baselines.forest import ForestImputer
from plmcmc.baselines.gaussian import GaussianImputer
from plmcmc.baselines.lenet import LeNet, fit_lenet, lenet_accuracy, lenet_features
from plmcmc.baselines.mean import MeanImputer
from plmcmc.baselines.misgan import Misgan, MisganImputer
from plmcmc.baselines.miwae import Miwae, MiwaeImputer

__all__ = [
    "ForestImputer",
    "GaussianImputer",
    "LeNet",
    "MeanImputer",
    "Misgan",
    "MisganImputer",
    "Miwae",
    "MiwaeImputer",
    "fit_lenet",
    "lenet_accuracy",
    "lenet_features",
]
