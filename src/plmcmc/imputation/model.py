"""What is learned of a table: its columns, a Gaussian, and a flow that starts from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from plmcmc.chains import progress_bar, run
from plmcmc.data import Regions, Schema
from plmcmc.flows import TabularFlow
from plmcmc.rng import Streams, generator
from plmcmc.training.gaussian import Gaussian, expectation_maximisation
from plmcmc.training.tabular import References, TableEM, TableTraining

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Effort:
    """How much work to put in.

    Args:
        members: flows in the ensemble.
        couplings: layers of each.
        width: of their networks.
        training: how they are trained.
        chains: chains of each member for each row, when drawing.
        burn_in: steps before any is kept.
        states: steps kept, for means.
    """

    members: int = 4
    couplings: int = 6
    width: int = 64
    training: TableTraining = field(default=TableTraining(updates=2000, kernel_steps=4))
    chains: int = 2
    burn_in: int = 100
    states: int = 300


EFFORTS = {
    "fast": Effort(
        members=2,
        couplings=4,
        width=48,
        training=TableTraining(updates=600),
        chains=1,
        burn_in=40,
        states=60,
    ),
    "default": Effort(),
    "thorough": Effort(
        training=TableTraining(updates=5000, kernel_steps=6), chains=4, burn_in=200, states=800
    ),
}


class TableModel(NamedTuple):
    """A fitted model of a table.

    Attributes:
        schema: its columns.
        gaussian: of the scores.
        flow: of the scores, the members side by side.
    """

    schema: Schema
    gaussian: Gaussian
    flow: TabularFlow

    def references(self, table: Array) -> References:
        """Return what is known of a table's rows, and the Gaussian's conditionals of the rest."""
        return References(self.gaussian, self.schema.regions(table), self.flow.mean.dtype)


def fit_table(
    schema: Schema, table: Array, effort: Effort, seed: int, *, progress: bool | None = None
) -> TableModel:
    """Learn a table's distribution from what is seen of it.

    Args:
        schema: of the table.
        table: codes `(rows, columns)`, NaN at holes.
        effort: how much work to put in.
        seed: of everything random.
        progress: show a bar; by default on a terminal only.
    """
    regions = schema.regions(table)
    gaussian = copula(regions)
    flow = TabularFlow(
        schema.width,
        members=effort.members,
        couplings=effort.couplings,
        width=effort.width,
        random_state=seed,
    )
    flow.start_at(gaussian.mean, gaussian.covariance)
    training = TableEM(flow, gaussian, regions, effort.training)
    places = len(table) * training.chains * effort.members
    state = training.start(Streams([generator(seed, "start")], [places]))
    rounds = -(-effort.training.updates // training.round_length)
    with progress_bar("Learning the table", rounds, show=progress) as report:
        run(
            training,
            state,
            Streams([generator(seed, "training")], [1]),
            rounds,
            on_step=lambda done, info: report(
                done, f"loss {info.loss:.2f}, accepted {info.acceptance:.2f}"
            ),
        )
    return TableModel(schema, gaussian, training.averaged.eval())


def copula(regions: Regions) -> Gaussian:
    """Fit a Gaussian to scores of which each is taken to be at the middle of where it may lie."""
    observed = np.isfinite(regions.low) | np.isfinite(regions.high)
    middle = np.where(observed, _middle(regions), 0.0)
    return expectation_maximisation(torch.as_tensor(middle), torch.as_tensor(observed))


def _middle(regions: Regions) -> Array:
    """Return the means of standard normals cut to their regions."""
    low, high = regions
    mass = ndtr(high) - ndtr(low)
    inside = mass > 1e-9
    cut = (norm.pdf(low) - norm.pdf(high)) / np.where(inside, mass, 1.0)
    return np.where(inside, cut, np.where(np.isfinite(low), low, 0.0))
