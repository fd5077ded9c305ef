"""A Gaussian by expectation-maximisation: the linear answer, exact if the table were normal."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.baselines.mean import checked_table, column_units
from plmcmc.rng import RandomState, generator, seed_of
from plmcmc.training.tables.gaussian import (
    completed_mean,
    conditionals,
    expectation_maximisation,
)

Table = NDArray[np.float64]


class GaussianImputer:
    """Fills missing values with their conditional means under a Gaussian fitted to the table.

    Example:
        >>> x = np.array([[1.0, 2.1], [2.0, 3.9], [3.0, 6.1], [4.0, 7.9], [5.0, np.nan]])
        >>> bool(abs(GaussianImputer().fill(x)[4, 1] - 10) < 0.3)
        True
    """

    def fill(self, x: Any) -> Table:
        """Return the table with missing values replaced by their conditional means."""
        return _Fitted(x).completed(0.0)

    def sample(self, x: Any, draws: int = 20, random_state: RandomState = None) -> Table:
        """Return `(draws, rows, columns)` of completed tables."""
        fitted, source = _Fitted(x), generator(seed_of(random_state), "gaussian")
        shape = fitted.mean.shape
        noise = (torch.randn(shape, generator=source, dtype=torch.float64) for _ in range(draws))
        return np.stack([fitted.completed(fresh) for fresh in noise])


class _Fitted:
    """A table and the Gaussian of its columns in their own deviations."""

    def __init__(self, x: Any) -> None:
        self.values, self.seen = checked_table(x)
        self.centre, self.spread = column_units(self.values, self.seen)
        scaled = np.where(self.seen, (self.values - self.centre) / self.spread, 0.0)
        observed = torch.as_tensor(self.seen)
        gaussian = expectation_maximisation(torch.as_tensor(scaled), observed)
        gain, self.root = conditionals(gaussian, observed)
        self.mean = completed_mean(gaussian, gain, torch.as_tensor(scaled))

    def completed(self, noise: Tensor | float) -> Table:
        """Return the table with its holes at their mean and this many deviations off."""
        off = (self.root @ (noise * torch.ones_like(self.mean))[:, :, None])[:, :, 0]
        filled = self.centre + self.spread * (self.mean + off).numpy()
        return np.where(self.seen, self.values, filled)
