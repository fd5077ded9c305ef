"""What is known of a table once it was learned: its columns, a Gaussian, flows and mixtures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.data import Schema
from plmcmc.flows import Beside, Flow, GaussianMixture, TabularFlow, Tilted
from plmcmc.training.tables.gaussian import Gaussian
from plmcmc.training.tables.references import References

Array = NDArray[np.float64]


class Tilts(NamedTuple):
    """An ensemble as it might as well have been found, another at each of a row's places.

    Attributes:
        gaussian: of each place, `(places, columns)` and so on.
        flow: of each place, tilted to that Gaussian's moments.
    """

    gaussian: Gaussian
    flow: Flow


class TableModel(NamedTuple):
    """A fitted model of a table.

    Attributes:
        schema: its columns.
        gaussian: of the scores.
        others: Gaussians that might as well have been found, `(others, columns)` and so on: fitted
            to rows weighted at random (the Bayesian bootstrap), or of few rows drawn from their
            posterior.
        flow: of the scores, its members side by side.
        mixture: mixtures of Gaussians that are members, too; None if there are none.
    """

    schema: Schema
    gaussian: Gaussian
    others: Gaussian
    flow: TabularFlow
    mixture: GaussianMixture | None = None

    @property
    def members(self) -> int:
        """How many members the ensemble has; they take turns among a row's chains."""
        return self.flow.members + (0 if self.mixture is None else self.mixture.members)

    @property
    def ensemble(self) -> Flow:
        """The density of scores, all members side by side."""
        return self.flow if self.mixture is None else Beside([self.flow, self.mixture])

    def to(self, device: torch.device | str) -> TableModel:
        """Return the model on a device."""
        mixture = None if self.mixture is None else self.mixture.to(device)
        return self._replace(flow=self.flow.to(device), mixture=mixture)

    def references(self, table: Array, gaussian: Gaussian | None = None) -> References:
        """Return what is known of a table's rows, and the Gaussian's conditionals of the rest.

        `gaussian`: those of each place, if not the model's own.
        """
        return References(gaussian or self.gaussian, self.schema.regions(table), self.flow.mean)

    def uncertain(self, places: int) -> Tilts:
        """Return the ensemble as it might as well have been found, another at each of `places`.

        Each is tilted to the moments of one of the other Gaussians; members take turns, and meet
        another one of them in every round.
        """
        place, others = torch.arange(places), len(self.others.mean)
        pick = (place + place // others) % others
        gaussian = Gaussian(self.others.mean[pick], self.others.covariance[pick])
        tilted = Tilted(self.ensemble, *self.gaussian, *gaussian)
        return Tilts(gaussian, tilted.to(self.flow.mean.device))
