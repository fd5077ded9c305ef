"""In: tables or images with holes. Out: the same without, by other methods."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plmcmc.baselines.forest import ForestImputer
from plmcmc.baselines.gaussian import GaussianImputer
from plmcmc.baselines.lenet import LeNet, fit_lenet, lenet_accuracy, lenet_features
from plmcmc.baselines.mean import MeanImputer
from plmcmc.baselines.misgan import Misgan, MisganImputer
from plmcmc.baselines.miwae import Miwae, MiwaeImputer

__all__ = [
    "Baseline",
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


class Baseline(Protocol):
    """Another method's imputer of tables, as far as a comparison needs it."""

    def fill(self, x: Any) -> NDArray[np.float64]:
        """Return the table `(rows, columns)` with its NaN filled, and all else as it was."""
        ...
