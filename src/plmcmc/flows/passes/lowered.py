"""Flows whose networks compute in a lower precision: faster on a GPU, and a slightly other flow.

A coupling evaluates the same network on the same half in both directions, so a flow stays
invertible whatever its networks round to; what they shift and scale stays in float32. Where a half
comes back different in its last bit, though, a network's input may be rounded the other way. A
`NICE` is therefore kept on a grid, on which it comes back exactly; of a `RealNVP` it happens:
`benchmarks/metropolis.py` measures how often, and what that does to a Metropolis step.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from plmcmc.flows.nice import NICE
from plmcmc.flows.passes.grid import step_for
from plmcmc.flows.passes.products import product
from plmcmc.flows.protocol import Flow
from plmcmc.flows.realnvp import RealNVP

PRECISIONS = ("float32", "tf32", "bfloat16")
# Hidden layers are widened to a multiple of this, which matrix units like; what is added is zero.
WIDTH = 128
# From which the step of a grid is found.
SAMPLES = 256


def lowered(flow: Flow, precision: str) -> Flow:
    """Return a copy of this flow, for sampling only, whose conditioners compute in this precision.

    Args:
        flow: a `NICE` or `RealNVP`, `Preprocessed` or not.
        precision: `"float32"` (the flow itself), `"tf32"` (float32 whose products keep 10 bits, on
            a GPU; elsewhere all of them) or `"bfloat16"` (7 bits).
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {PRECISIONS}; got {precision!r}")
    if precision == "float32":
        return flow
    if is_lowered(flow):
        raise TypeError("this flow is in a lower precision already: lower the one it was made from")
    if not has_conditioners(flow):
        raise TypeError(
            "precision needs a flow with plmcmc's own conditioners (NICE, RealNVP); got "
            f"{type(flow).__name__}: leave it out"
        )
    copied = deepcopy(flow)
    for part in _modules(copied):
        if isinstance(part, NICE):
            step, nets = _step(part), part.shifts
            part.keep_on_grid(step)
            part.shifts = nn.ModuleList(_Lowered(own, precision, 1 / step) for own in nets)
        elif isinstance(part, RealNVP):
            nets = part.conditioners
            part.conditioners = nn.ModuleList(_Lowered(own, precision) for own in nets)
    return copied


@torch.no_grad()
def _step(flow: NICE) -> float:
    """Return the step of a grid for a flow's own samples, at both ends of its couplings."""
    z = flow.latent_sample(SAMPLES, Generator(flow.log_scale.device).manual_seed(0))
    return step_for(torch.cat([flow.to_data(z)[0], z * (-flow.log_scale).exp()]))


def has_conditioners(flow: Flow) -> bool:
    """Return whether a flow is, or has within it, a `NICE` or a `RealNVP`."""
    return any(isinstance(part, NICE | RealNVP) for part in _modules(flow))


def is_lowered(flow: Flow) -> bool:
    """Return whether a flow came from `lowered`."""
    return any(isinstance(part, _Lowered) for part in _modules(flow))


def _modules(flow: Flow) -> list[nn.Module]:
    return list(flow.modules()) if isinstance(flow, nn.Module) else []


class _Lowered(nn.Module):
    """A conditioner's layers, rounded and widened once; what it says is multiplied by `unit`."""

    def __init__(self, network: Any, precision: str, unit: float = 1.0) -> None:
        super().__init__()
        layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        activation = network[1]
        rectified = isinstance(activation, nn.ReLU)
        self.activation = nn.Identity() if rectified else activation
        self.layers = nn.ModuleList()
        for layer in layers:
            more_in = 0 if layer is layers[0] else -layer.in_features % WIDTH
            more_out = 0 if layer is layers[-1] else -layer.out_features % WIDTH
            last = layer is layers[-1]
            scale = unit if last else 1.0
            weight = pad(scale * layer.weight.detach(), (0, more_in, 0, more_out))
            bias = pad(scale * layer.bias.detach(), (0, more_out))
            kind = weight.dtype if precision == "tf32" else torch.bfloat16
            self.layers.append(_Layer(weight.to(kind), bias.to(kind), rectified and not last))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the network says, as `x` is."""
        first, *others = self.layers
        hidden = first(x)
        for layer in others:
            hidden = layer(self.activation(hidden))
        return hidden.to(x.dtype)


class _Layer(nn.Module):
    """A product, of buffers: nobody trains them, nor takes their dtype for the flow's."""

    def __init__(self, weight: Tensor, bias: Tensor, rectified: bool) -> None:
        super().__init__()
        self.rectified = rectified
        self.weight: Tensor
        self.bias: Tensor
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output in its own precision."""
        return product(x.to(self.weight.dtype), self.weight, self.bias, self.rectified)
