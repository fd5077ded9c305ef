"""What is known of a table once it was learned: its columns, a Gaussian, and a flow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.data import Schema
from plmcmc.flows import Flow, TabularFlow, Tilted
from plmcmc.training.gaussian import Gaussian
from plmcmc.training.references import References

Array = NDArray[np.float64]


class TableModel(NamedTuple):
    """A fitted model of a table.

    Attributes:
        schema: its columns.
        gaussian: of the scores.
        others: Gaussians that might as well have been found, `(others, columns)` and so on: fitted
            to rows weighted at random (the Bayesian bootstrap).
        flow: of the scores, the members side by side.
    """

    schema: Schema
    gaussian: Gaussian
    others: Gaussian
    flow: TabularFlow

    def references(self, table: Array) -> References:
        """Return what is known of a table's rows, and the Gaussian's conditionals of the rest."""
        return References(self.gaussian, self.schema.regions(table), self.flow.mean)

    def uncertain(self, places: int) -> Flow:
        """Return the flow as it might as well have been found, another at each of `places`.

        Each is tilted to the moments of one of the other Gaussians; members take turns, and meet
        another one of them in every round.
        """
        place, others = torch.arange(places), len(self.others.mean)
        pick = (place + place // others) % others
        tilted = Tilted(
            self.flow, *self.gaussian, self.others.mean[pick], self.others.covariance[pick]
        )
        return tilted.to(self.flow.mean.device)
