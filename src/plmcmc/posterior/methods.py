"""Ways to sample, by name or configured: each turns a flow and rows with holes into a kernel.

`Conditional.sample(method="elliptical")` uses the defaults here; `method=Elliptical(...)` yours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from plmcmc import kernels
from plmcmc.adaptation import Warmup
from plmcmc.kernels import Holes, Kernel
from plmcmc.posterior.batch import Batch, Begun, Method
from plmcmc.rng import Streams
from plmcmc.target import Auxiliary, ConditionalTarget, NormalAuxiliary, ProjectedLatentTarget

# Beyond this many holes hardly any jump is accepted.
JUMP_HOLES = 32


class Fixed(ABC):
    """A method whose kernel is not tuned; what is not kept is burn-in."""

    @abstractmethod
    def kernel(self, batch: Batch) -> Kernel:
        """Return the kernel."""

    def burn_in(self, warmup: int | None, kept: int) -> int:
        """Return the warm-up asked for, or as many steps as are kept."""
        return kept if warmup is None else warmup

    def begin(self, batch: Batch, y: Tensor, warmup: int | None, streams: Streams) -> Begun:
        """Return the kernel at its start."""
        del warmup, streams
        kernel = self.kernel(batch)
        return Begun(kernel, kernel.init(y), 0)


@dataclass(frozen=True)
class Metropolis(Fixed):
    """The paper's Algorithm 1: perturb or resample the latents, half of the time each.

    Args:
        perturb: deviation of the small steps (sigma_p).
        resample: deviation of the fresh draws (sigma_r); None perturbs only.
        auxiliary: density of the observed part (sigma_a is its scale).
    """

    perturb: float = 0.01
    resample: float | None = 1.0
    auxiliary: Auxiliary = field(default=NormalAuxiliary(1e-3))

    def kernel(self, batch: Batch) -> Kernel:
        """Return Metropolis-Hastings on the projected latent target."""
        proposal = kernels.Perturb(self.perturb)
        if self.resample is not None:
            proposal = kernels.Mixture((proposal, kernels.Resample(self.resample)), (0.5, 0.5))
        return kernels.Metropolis(
            ProjectedLatentTarget(batch.flow, batch.data, self.auxiliary), proposal
        )


@dataclass(frozen=True)
class CrankNicolson(Fixed):
    """Preconditioned Crank-Nicolson moves in latent space."""

    step: float = 0.1
    scale: float = 1.0
    auxiliary: Auxiliary = field(default=NormalAuxiliary(0.1))

    def kernel(self, batch: Batch) -> Kernel:
        """Return Metropolis-Hastings with the Crank-Nicolson proposal."""
        target = ProjectedLatentTarget(batch.flow, batch.data, self.auxiliary)
        return kernels.Metropolis(target, kernels.CrankNicolson(self.step, self.scale))


@dataclass(frozen=True)
class Elliptical(Fixed):
    """Elliptical slice sampling in latent space; nothing to tune but the auxiliary."""

    scale: float = 1.0
    auxiliary: Auxiliary = field(default=NormalAuxiliary(0.1))

    def kernel(self, batch: Batch) -> Kernel:
        """Return the elliptical slice kernel."""
        target = ProjectedLatentTarget(batch.flow, batch.data, self.auxiliary)
        return kernels.EllipticalSlice(target, self.scale)


@dataclass(frozen=True)
class Langevin(Fixed):
    """MALA in latent space."""

    step: float = 0.05
    auxiliary: Auxiliary = field(default=NormalAuxiliary(0.3))

    def kernel(self, batch: Batch) -> Kernel:
        """Return MALA on the projected latent target."""
        return kernels.Langevin(
            ProjectedLatentTarget(batch.flow, batch.data, self.auxiliary), self.step
        )


@dataclass(frozen=True)
class DataLangevin(Fixed):
    """MALA on the holes themselves; without `adjusted`, ULA, which is biased."""

    step: float = 0.05
    adjusted: bool = True

    def kernel(self, batch: Batch) -> Kernel:
        """Return MALA or ULA on the conditional target."""
        kind = kernels.Langevin if self.adjusted else kernels.UnadjustedLangevin
        return kind(ConditionalTarget(batch.flow, batch.data), self.step)


@dataclass(frozen=True)
class DataMetropolis(Fixed):
    """Random-walk Metropolis on the holes themselves."""

    step: float = 0.05

    def kernel(self, batch: Batch) -> Kernel:
        """Return Metropolis-Hastings on the conditional target."""
        return kernels.Metropolis(
            ConditionalTarget(batch.flow, batch.data), kernels.Perturb(self.step)
        )


@dataclass(frozen=True, eq=False)
class Gibbs(Fixed):
    """One missing entry at a time, redrawn from `N(mean_i, scale_i^2)` (paper, appendix E.4).

    Args:
        mean: `(*event)`, each entry's mean over the training data; None estimates both from 4,096
            unconditional samples of the flow.
        scale: `(*event)`, each entry's standard deviation.
    """

    mean: Tensor | None = None
    scale: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse one without the other."""
        if (self.mean is None) != (self.scale is None):
            raise ValueError("give both mean and scale, or neither")

    def kernel(self, batch: Batch) -> Kernel:
        """Return single-site Metropolis-Hastings on the conditional target."""
        values = batch.data.values
        if self.mean is None or self.scale is None:
            samples = batch.reference.samples().double()
            mean, scale = samples.mean(0), samples.std(0).clamp(min=1e-6)
        else:
            mean, scale = torch.as_tensor(self.mean), torch.as_tensor(self.scale)
        if mean.shape != values.shape[1:] or scale.shape != mean.shape:
            raise ValueError(
                f"mean and scale must have the shape of a row, {tuple(values.shape[1:])}; got "
                f"{tuple(mean.shape)} and {tuple(scale.shape)}"
            )
        target = ConditionalTarget(batch.flow, batch.data)
        proposal = kernels.OneCoordinate.of(mean.to(values), scale.to(values), target.free)
        return kernels.Metropolis(target, proposal)


@dataclass(frozen=True)
class Pullback:
    """Hamiltonian Monte Carlo on the holes, in the geometry that the latent space lends them.

    Entries are first warped to coordinates in which the flow's own marginals are nearly normal.
    Climbs from dispersed starts, takes the pullback metric, tunes each row's step size, and only
    then draws. No auxiliary density, nothing to tune.

    Args:
        tuning: how the warm-up goes.
    """

    tuning: Warmup = field(default=Warmup())

    def burn_in(self, warmup: int | None, kept: int) -> int:
        """Return 0: the warm-up is over when tuning is."""
        del warmup, kept
        return 0

    def begin(self, batch: Batch, y: Tensor, warmup: int | None, streams: Streams) -> Begun:
        """Tune; `warmup` is the number of trajectories to tune for."""
        information, warp = batch.reference.survey
        target = ConditionalTarget(batch.flow, batch.data, warp.to(y))
        holes = Holes.of(batch.data.observed[:: batch.chains], batch.width)
        tuning = self.tuning if warmup is None else self.tuning.lasting(warmup)
        if batch.most_holes > JUMP_HOLES:
            tuning = replace(tuning, jumps=False)
        return Begun(*tuning.run(target, y, holes, information, streams))


METHODS: dict[str, Method] = {
    "auto": Pullback(),
    "pullback": Pullback(),
    "metropolis": Metropolis(),
    "pcn": CrankNicolson(),
    "elliptical": Elliptical(),
    "mala": Langevin(),
    "data-mala": DataLangevin(),
    "data-ula": DataLangevin(adjusted=False),
    "data-metropolis": DataMetropolis(),
    "gibbs": Gibbs(),
}


def method_of(method: str | Method) -> Method:
    """Return the method of this name, or the configured method itself."""
    if not isinstance(method, str):
        if isinstance(method, type) or not callable(getattr(method, "begin", None)):
            raise TypeError(
                f"method must be one of {', '.join(METHODS)}, or a configured method such as "
                f"plmcmc.methods.Metropolis(perturb=0.05); got {method!r}"
            )
        return method
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    return METHODS[method]
