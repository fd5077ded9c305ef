"""NICE, as the paper uses it: additive couplings over one random partition, then a scaling."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plmcmc.flows.base import LatentFlow, keep_inverse, seeded, total
from plmcmc.flows.conditioner import conditioner, halves
from plmcmc.flows.latents import LATENTS
from plmcmc.flows.passes.grid import on_grid, whole
from plmcmc.flows.passes.wrapped import Wrapped
from plmcmc.flows.protocol import Flow


class NICE(LatentFlow):
    """Additive couplings (Dinh et al., 2014) with the paper's random partition.

    The columns are split at random into two halves at construction; all couplings use this
    partition and alternately shift one half depending on the other. The paper's "K = 5, L = 4" is
    `depth=5, couplings=4`, with `width=1000, latent="logistic"` for MNIST and `width=120,
    latent="normal"` for its tables.

    Args:
        features: number of columns, even or odd, at least 2.
        couplings: number of couplings (the paper's L).
        depth: hidden layers of each conditioner (the paper's K).
        width: units of each hidden layer.
        latent: `"normal"` or `"logistic"`.
        activation: activation function of the conditioners; the paper uses `"relu"`.
        random_state: seed for the partition and the initial weights.
    """

    name = "nice"
    # For networks that round what they see: halves are kept on a grid of this step (see
    # `plmcmc.flows.passes.grid`), and shifts are told in steps. `grid` is the same as a tensor: to
    # a compiler a number is a constant, and every other one a function to compile.
    grid_step: float | None = None
    grid: Tensor | None

    def __init__(
        self,
        features: int,
        *,
        couplings: int = 4,
        depth: int = 5,
        width: int = 120,
        latent: str = "normal",
        activation: str = "relu",
        random_state: int | None = None,
    ) -> None:
        super().__init__(features, latent)
        self.config |= {"couplings": couplings, "depth": depth, "width": width}
        self.config |= {"activation": activation}
        self.halves = halves(features, couplings)
        with seeded(random_state):
            self.partition: Tensor
            self.register_buffer("partition", torch.randperm(features))
            self.back: Tensor
            keep_inverse(self, "partition", "back")
            self.shifts = nn.ModuleList(
                conditioner(self.halves[i % 2], self.halves[1 - i % 2], width, depth, activation)
                for i in range(couplings)
            )
        self.log_scale = nn.Parameter(torch.zeros(features))
        self.register_buffer("grid", None, persistent=False)

    def keep_on_grid(self, step: float) -> None:
        """Keep halves on a grid from now on; shifts are to be told in its steps."""
        self.grid_step, self.grid = step, self.log_scale.new_tensor(step)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z`, in the partition's order, and the constant log-determinant."""
        first, second = self.partition.split(self.halves)
        x = self._snapped(x)
        given, moved = x.index_select(1, first), x.index_select(1, second)
        for shift in self.shifts:
            given, moved = self._added(moved, shift(given)), given
        z = self._join(given, moved) * self.log_scale.exp()
        return z, total(self.log_scale).expand(len(x))

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and the constant log-determinant."""
        given, moved = self._part(self._snapped(z * (-self.log_scale).exp()))
        for shift in reversed(self.shifts):
            given, moved = moved, self._added(given, shift(moved), sign=-1)
        x = torch.cat((given, moved), 1).index_select(1, self.back)
        return x, -total(self.log_scale).expand(len(z))

    def _snapped(self, x: Tensor) -> Tensor:
        if self.grid is None:
            return x
        if torch.compiler.is_compiling():
            return on_grid(x, self.grid)
        assert self.grid_step is not None
        return on_grid(x, self.grid_step)

    def _added(self, moved: Tensor, shift: Tensor, sign: int = 1) -> Tensor:
        if self.grid is None:
            return torch.add(moved, shift, alpha=sign)
        if torch.compiler.is_compiling():
            return moved + whole(shift) * (sign * self.grid)
        assert self.grid_step is not None
        return torch.add(moved, whole(shift), alpha=sign * self.grid_step)

    # After an odd number of couplings the halves have changed places.
    def _join(self, given: Tensor, moved: Tensor) -> Tensor:
        return torch.cat((given, moved) if len(self.shifts) % 2 == 0 else (moved, given), 1)

    def _part(self, z: Tensor) -> tuple[Tensor, Tensor]:
        first, second = z.split(self.halves, 1)
        return (first, second) if len(self.shifts) % 2 == 0 else (second, first)


def most_log_prob(flow: Flow) -> Tensor | None:
    """Return what no row's log-density exceeds, of a flow whose volumes are the same everywhere.

    None of any other: a subclass, or somebody's wrapper, may have other latents or other units.
    """
    while isinstance(flow, Wrapped):
        flow = flow.flow
    if type(flow) is not NICE:
        return None
    return LATENTS[flow.latent].peak * flow.features + total(flow.log_scale)
