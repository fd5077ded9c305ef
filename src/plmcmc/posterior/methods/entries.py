"""Methods that walk on the holes of the row itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc import kernels
from plmcmc.adaptation import spread_of
from plmcmc.kernels import Kernel
from plmcmc.posterior.batch import Batch
from plmcmc.posterior.methods.tunable import Tunable
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget, Target


class _Warped(Tunable):
    """A method in coordinates in which the flow's own marginals are nearly standard normal."""

    def target(self, batch: Batch, y: Tensor, tuning: int, streams: Streams) -> tuple[Target, int]:
        """Return the conditional target."""
        del tuning, streams
        warp = batch.probe.survey.warp.to(y)
        return ConditionalTarget(batch.flow, batch.data, warp), 0


@dataclass(frozen=True)
class DataLangevin(_Warped):
    """MALA on missing entries; without `adjusted`, ULA, which is biased.

    Args:
        step: standard deviation of the noise, in standard deviations of each entry; tuned if None.
        adjusted: accept or reject proposals. Without this, the step cannot be tuned.
    """

    step: float | None = None
    adjusted: bool = True

    gradient: ClassVar[bool] = True
    accepted: ClassVar[float] = 0.574

    def __post_init__(self) -> None:
        """Refuse a step that is none, and one to be tuned without a test."""
        super().__post_init__()
        if self.step is None and not self.adjusted:
            raise ValueError(
                "adjusted=False has no acceptance rate to tune the step by: pass a step"
            )

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return MALA or ULA."""
        if not self.adjusted:
            assert self.step is not None
            return kernels.UnadjustedLangevin(target, self.step)
        return kernels.Langevin(target, batch.by_place(step))


@dataclass(frozen=True)
class DataHamiltonian(_Warped):
    """Hamiltonian Monte Carlo on missing entries, without a metric: cheap to start, slow to mix.

    For many rows with many missing entries that take few steps at a time, as in training.

    Args:
        step: angle of one leapfrog turn, in standard deviations of each entry; tuned if None.
        turns: number of turns per trajectory.
        tuning: number of trajectories used for tuning.
    """

    step: float | None = None
    turns: int = 10
    tuning: int = 100  # pyright: ignore[reportIncompatibleVariableOverride]

    gradient: ClassVar[bool] = True
    accepted: ClassVar[float] = 0.65
    largest: ClassVar[float] = 1.4

    def __post_init__(self) -> None:
        """Refuse a step, or numbers of turns and trajectories, that are none."""
        super().__post_init__()
        for name, number in (("turns", self.turns), ("tuning", self.tuning)):
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {number}")

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return Hamiltonian moves of the missing entries."""
        turns = torch.full_like(step, self.turns, dtype=torch.long)
        free = kernels.Free(len(step), ~batch.data.observed)
        return kernels.Hamiltonian(target, free, step, turns)


@dataclass(frozen=True)
class DataMetropolis(_Warped):
    """Random-walk Metropolis on missing entries.

    Args:
        step: standard deviation of the moves, in standard deviations of each entry; tuned if None.
    """

    step: float | None = None

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return Metropolis-Hastings."""
        return kernels.Metropolis(target, kernels.Perturb(batch.by_place(step)))


@dataclass(frozen=True, eq=False)
class Gibbs(Tunable):
    """One missing entry at a time, redrawn from `N(mean_i, scale_i^2)` (paper, appendix E.3).

    Args:
        mean: `(*event)`, each entry's mean over the training data; if None, both are estimated from
            4,096 unconditional samples of the flow.
        scale: `(*event)`, each entry's standard deviation.
    """

    mean: Tensor | None = None
    scale: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse one without the other."""
        if (self.mean is None) != (self.scale is None):
            raise ValueError("give both mean and scale, or neither")

    @property
    def given_step(self) -> float:
        """Not used: there is nothing to tune."""
        return 1.0

    def target(self, batch: Batch, y: Tensor, tuning: int, streams: Streams) -> tuple[Target, int]:
        """Return the conditional target."""
        del y, tuning, streams
        return ConditionalTarget(batch.flow, batch.data), 0

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return single-site Metropolis-Hastings."""
        del step
        values = batch.data.values
        if self.mean is None or self.scale is None:
            samples = batch.probe.samples
            mean, scale = samples.double().mean(0), spread_of(samples)
        else:
            mean, scale = torch.as_tensor(self.mean), torch.as_tensor(self.scale)
        if mean.shape != values.shape[1:] or scale.shape != mean.shape:
            raise ValueError(
                f"mean and scale must have the shape of a row, {tuple(values.shape[1:])}; got "
                f"{tuple(mean.shape)} and {tuple(scale.shape)}"
            )
        free = ~batch.data.observed
        proposal = kernels.OneCoordinate.of(mean.to(values), scale.to(values), free)
        return kernels.Metropolis(target, proposal)
