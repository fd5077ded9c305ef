"""Methods that walk in latent space, on the paper's projected target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc import kernels
from plmcmc.adaptation import chosen_auxiliary
from plmcmc.kernels import Kernel
from plmcmc.posterior.batch import Batch
from plmcmc.posterior.methods.tunable import Tunable, check_step
from plmcmc.rng import Streams
from plmcmc.target import Auxiliary, NormalAuxiliary, ProjectedLatentTarget, Target


class _Latent(Tunable):
    """A method with an auxiliary; None chooses a scale for each row by the decisions it overturns.

    Attributes:
        auxiliary: density of the observed part.
    """

    auxiliary: Auxiliary | None

    @property
    def given_target(self) -> bool:
        """Whether the auxiliary is given."""
        return self.auxiliary is not None

    def target(self, batch: Batch, y: Tensor, tuning: int, streams: Streams) -> tuple[Target, int]:
        """Return the projected latent target."""
        auxiliary, spent = self.auxiliary, 0
        if auxiliary is None:
            auxiliary, spent = chosen_auxiliary(
                batch.flow,
                batch.data,
                y,
                batch.probe.survey.spread,
                streams,
                chains=batch.chains,
                proposals=tuning,
            )
        return ProjectedLatentTarget(batch.flow, batch.data, auxiliary), spent


@dataclass(frozen=True)
class Metropolis(_Latent):
    """The paper's Algorithm 1 with its settings: perturb or resample, each half of the time.

    Args:
        perturb: standard deviation of the small steps (sigma_p); tuned if None.
        resample: standard deviation of the fresh draws (sigma_r); None only perturbs.
        auxiliary: density of the observed part (sigma_a is its scale); chosen automatically if
            None.
    """

    perturb: float | None = 0.01
    resample: float | None = 1.0
    auxiliary: Auxiliary | None = field(default=NormalAuxiliary(1e-3))

    def __post_init__(self) -> None:
        """Refuse deviations that are none."""
        super().__post_init__()
        check_step(self.resample)

    @property
    def given_step(self) -> float | None:
        """The standard deviation of the small steps."""
        return self.perturb

    def trial(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return small steps only: the acceptance of fresh draws must not affect their tuning."""
        return kernels.Metropolis(target, kernels.Perturb(batch.by_place(step)))

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return Metropolis-Hastings."""
        proposal = kernels.Perturb(batch.by_place(step))
        if self.resample is not None:
            proposal = kernels.Mixture((proposal, kernels.Resample(self.resample)), (0.5, 0.5))
        return kernels.Metropolis(target, proposal)


@dataclass(frozen=True)
class CrankNicolson(_Latent):
    """Preconditioned Crank-Nicolson moves.

    Args:
        step: share of fresh noise, at most 1; tuned if None.
        scale: standard deviation of the normal distribution that moves are reversible for.
        auxiliary: density of the observed part; chosen automatically if None.
    """

    step: float | None = None
    scale: float = 1.0
    auxiliary: Auxiliary | None = None

    largest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Refuse a step outside (0, 1]."""
        if self.step is not None:
            kernels.CrankNicolson(self.step, self.scale)

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return Metropolis-Hastings with the Crank-Nicolson proposal."""
        proposal = kernels.CrankNicolson(batch.by_place(step), self.scale)
        return kernels.Metropolis(target, proposal)


@dataclass(frozen=True)
class Elliptical(_Latent):
    """Elliptical slice sampling: has no step size, and needs no gradient.

    Args:
        scale: standard deviation of the normal distribution that ellipses are drawn from.
        auxiliary: density of the observed part; chosen automatically if None.
    """

    scale: float = 1.0
    auxiliary: Auxiliary | None = None

    @property
    def given_step(self) -> float:
        """Not used: there is nothing to tune."""
        return 1.0

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return the elliptical slice kernel."""
        del batch, step
        return kernels.EllipticalSlice(target, self.scale)


@dataclass(frozen=True)
class Langevin(_Latent):
    """MALA.

    Args:
        step: standard deviation of the noise; tuned if None.
        auxiliary: density of the observed part; chosen automatically if None.
    """

    step: float | None = None
    auxiliary: Auxiliary | None = None

    gradient: ClassVar[bool] = True
    accepted: ClassVar[float] = 0.574

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return MALA."""
        return kernels.Langevin(target, batch.by_place(step))


@dataclass(frozen=True)
class Hamiltonian(_Latent):
    """Hamiltonian Monte Carlo.

    Args:
        step: angle of one leapfrog turn; tuned if None.
        turns: number of turns per trajectory.
        auxiliary: density of the observed part; chosen automatically if None.
    """

    step: float | None = None
    turns: int = 10
    auxiliary: Auxiliary | None = None

    gradient: ClassVar[bool] = True
    tuning: ClassVar[int] = 50
    accepted: ClassVar[float] = 0.65
    largest: ClassVar[float] = 1.4

    def __post_init__(self) -> None:
        """Refuse a trajectory that is none."""
        super().__post_init__()
        if self.turns < 1:
            raise ValueError(f"turns must be at least 1; got {self.turns}")

    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return Hamiltonian trajectories, in units of the latents' standard deviation."""
        unit = batch.probe.survey.information.rsqrt().to(batch.data.values.dtype)
        turns = torch.full_like(step, self.turns, dtype=torch.long)
        return kernels.Hamiltonian(target, kernels.Scaled(len(step), unit), step, turns)
