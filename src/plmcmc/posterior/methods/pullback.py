"""The default: Hamiltonian moves on the holes, in the geometry that the latent space lends them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import Tensor

from plmcmc.adaptation import Warmup
from plmcmc.adaptation.pool import MOST
from plmcmc.adaptation.scouts import ROUNDS, SCOUTS
from plmcmc.flows import differentiable
from plmcmc.kernels import Holes
from plmcmc.posterior.batch import Batch, Begun, Method
from plmcmc.posterior.likely_places import likely_places
from plmcmc.posterior.methods.latent import Elliptical
from plmcmc.posterior.methods.tunable import require_derivatives
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget

# Beyond this many holes hardly any jump is accepted.
JUMP_HOLES = 64


class DerivativeWarning(UserWarning):
    """The flow has no derivatives, and a lesser method is used."""


@dataclass(frozen=True)
class Pullback:
    """Hamiltonian Monte Carlo on missing entries, with the pullback metric.

    Entries are first transformed to coordinates in which the flow's own marginals are nearly
    normal. The warm-up climbs from dispersed starts, computes the pullback metric and tunes each
    row's step size; only then are draws kept. Needs no auxiliary density and no settings.

    Args:
        tuning: settings of the warm-up.
    """

    gradient: ClassVar[bool] = True
    tuning: Warmup = field(default=Warmup())

    def footprint(self, entries: int, holes: int, chains: int) -> int:
        """Return the size of the Jacobians, twice, and of matrices and distances in float64."""
        jacobians = 2 * self.tuning.points(holes, chains) * holes
        # Of jumps: the old draws of a row, and from every chain to each of them. A row's own holes
        # may be few though there is room for many.
        few = min(holes, JUMP_HOLES)
        jumps = MOST * (6 * few + 8 * chains) + SCOUTS * few * (6 * few + 4 * chains)
        jumps = jumps if self.tuning.jumps else 0
        return entries * (8 * chains + jacobians) + 16 * holes**2 + jumps

    def burn_in(self, warmup: int | None, kept: int) -> int:
        """Return 0: the warm-up ends with tuning."""
        del warmup, kept
        return 0

    def begin(self, batch: Batch, y: Tensor, warmup: int | None, streams: Streams) -> Begun:
        """Tune; `warmup` is the number of trajectories to tune for."""
        information, warp, _ = batch.probe.survey
        target = ConditionalTarget(batch.flow, batch.data, warp.to(y))
        require_derivatives(batch, y)
        tuning = self.tuning if warmup is None else self.tuning.lasting(warmup)
        holes = Holes.of(batch.data.observed[:: batch.chains], batch.width)
        tuning = replace(tuning, jumps=tuning.jumps and batch.most_holes <= JUMP_HOLES)
        times = min(ROUNDS, -(-SCOUTS // batch.chains))
        places = likely_places(batch, streams, times)
        return Begun(*tuning.run(target, y, holes, information, streams, places))


@dataclass(frozen=True)
class Auto(Pullback):
    """`Pullback`, or `Elliptical` for a flow without derivatives, with a warning."""

    def choose(self, batch: Batch) -> Method:
        """Return the method for the flow of this batch."""
        if differentiable(batch.flow, batch.data.values):
            return self
        warnings.warn(
            "the flow has no derivatives; using elliptical slice sampling in latent space "
            "instead: exact, but much slower to converge",
            DerivativeWarning,
            stacklevel=3,
        )
        return Elliptical()
