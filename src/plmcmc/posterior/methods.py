"""Ways to sample, by name or configured: each turns a flow and rows with holes into a kernel.

`Conditional.sample(method="elliptical")` uses the defaults here; `method=Elliptical(...)` yours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Generator, Tensor

from plmcmc import kernels
from plmcmc.data import Incomplete
from plmcmc.flows import Flow, home, sample
from plmcmc.kernels import Kernel
from plmcmc.target import Auxiliary, ConditionalTarget, NormalAuxiliary, ProjectedLatentTarget


class Method(Protocol):
    """A configured way to sample; a frozen dataclass, so that its repr names the run."""

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return the kernel for these rows."""
        ...


@dataclass(frozen=True)
class Metropolis:
    """The paper's Algorithm 1: perturb or resample the latents, half of the time each.

    Args:
        perturb: deviation of the small steps (sigma_p).
        resample: deviation of the fresh draws (sigma_r); None perturbs only.
        auxiliary: density of the observed part (sigma_a is its scale).
    """

    perturb: float = 0.01
    resample: float | None = 1.0
    auxiliary: Auxiliary = field(default=NormalAuxiliary(1e-3))

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return Metropolis-Hastings on the projected latent target."""
        proposal = kernels.Perturb(self.perturb)
        if self.resample is not None:
            proposal = kernels.Mixture((proposal, kernels.Resample(self.resample)), (0.5, 0.5))
        return kernels.Metropolis(ProjectedLatentTarget(flow, data, self.auxiliary), proposal)


@dataclass(frozen=True)
class CrankNicolson:
    """Preconditioned Crank-Nicolson moves in latent space."""

    step: float = 0.1
    scale: float = 1.0
    auxiliary: Auxiliary = field(default=NormalAuxiliary(0.1))

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return Metropolis-Hastings with the Crank-Nicolson proposal."""
        target = ProjectedLatentTarget(flow, data, self.auxiliary)
        return kernels.Metropolis(target, kernels.CrankNicolson(self.step, self.scale))


@dataclass(frozen=True)
class Elliptical:
    """Elliptical slice sampling in latent space; nothing to tune but the auxiliary."""

    scale: float = 1.0
    auxiliary: Auxiliary = field(default=NormalAuxiliary(0.1))

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return the elliptical slice kernel."""
        target = ProjectedLatentTarget(flow, data, self.auxiliary)
        return kernels.EllipticalSlice(target, self.scale)


@dataclass(frozen=True)
class Langevin:
    """MALA in latent space."""

    step: float = 0.05
    auxiliary: Auxiliary = field(default=NormalAuxiliary(0.3))

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return MALA on the projected latent target."""
        return kernels.Langevin(ProjectedLatentTarget(flow, data, self.auxiliary), self.step)


@dataclass(frozen=True)
class DataLangevin:
    """MALA on the holes themselves; without `adjusted`, ULA, which is biased."""

    step: float = 0.05
    adjusted: bool = True

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return MALA or ULA on the conditional target."""
        kind = kernels.Langevin if self.adjusted else kernels.UnadjustedLangevin
        return kind(ConditionalTarget(flow, data), self.step)


@dataclass(frozen=True)
class DataMetropolis:
    """Random-walk Metropolis on the holes themselves."""

    step: float = 0.05

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return Metropolis-Hastings on the conditional target."""
        return kernels.Metropolis(ConditionalTarget(flow, data), kernels.Perturb(self.step))


@dataclass(frozen=True, eq=False)
class Gibbs:
    """One missing entry at a time, redrawn from `N(mean_i, scale_i^2)` (paper, appendix E.4).

    Args:
        mean: `(*event)`, each entry's mean over the training data; None estimates both from 4,096
            unconditional samples of the flow.
        scale: `(*event)`, each entry's standard deviation.
    """

    mean: Tensor | None = None
    scale: Tensor | None = None

    def kernel(self, flow: Flow, data: Incomplete) -> Kernel:
        """Return single-site Metropolis-Hastings on the conditional target."""
        mean, scale = self.mean, self.scale
        if mean is None or scale is None:
            mean, scale = _marginal_moments(flow, len(data.values))
        target = ConditionalTarget(flow, data)
        proposal = kernels.OneCoordinate.of(
            mean.to(data.values), scale.to(data.values), target.free
        )
        return kernels.Metropolis(target, proposal)


def _marginal_moments(flow: Flow, rows: int) -> tuple[Tensor, Tensor]:
    """Estimate each entry's mean and deviation under the flow."""
    source = Generator(home(flow).device).manual_seed(0)
    # `rows` at a time: a flow with contexts knows that many rows only.
    parts = [sample(flow, rows, source) for _ in range(max(1, 4096 // rows))]
    drawn = torch.cat(parts)[:4096].double()
    return drawn.mean(0), drawn.std(0).clamp(min=1e-6)


METHODS: dict[str, Method] = {
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
        return method
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    return METHODS[method]
