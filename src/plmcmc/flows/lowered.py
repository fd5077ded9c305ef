"""Flows whose networks compute in a lower precision: faster on a GPU, and a slightly other flow.

A coupling evaluates the same network on the same half in both directions, so a flow stays
invertible whatever its networks round to; what they shift and scale stays in float32. Where a half
comes back different in its last bit, though, a network's input may be rounded the other way:
`benchmarks/metropolis.py` measures how often, and what that does to a Metropolis step.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from plmcmc.flows.arithmetic import Rounded
from plmcmc.flows.conditioner import Conditioner
from plmcmc.flows.protocol import Flow

PRECISIONS = ("float32", "tf32", "bfloat16")
# Hidden layers are widened to a multiple of this, which matrix units like; what is added is zero.
WIDTH = 128


def lowered(flow: Flow, precision: str) -> Flow:
    """Return a flow like this one, for sampling only, whose conditioners compute as asked.

    Args:
        flow: with conditioners of ours: `NICE` or `RealNVP`, `Preprocessed` or not.
        precision: `"float32"` (the flow itself), `"tf32"` (float32 whose products keep 10 bits, on
            a GPU; elsewhere all of them) or `"bfloat16"` (7 bits).
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {PRECISIONS}; got {precision!r}")
    if precision == "float32":
        return flow
    if is_lowered(flow):
        raise TypeError("this flow is in a lower precision already: lower the one it was made from")
    own = [part for part in _modules(flow) if isinstance(part, Conditioner)]
    if not own:
        raise TypeError(
            f"precision is for flows with conditioners of plmcmc's (NICE, RealNVP); got "
            f"{type(flow).__name__}: leave it out"
        )
    copied = deepcopy(flow)
    for part in _modules(copied):
        for name, child in part.named_children():
            if isinstance(child, Conditioner):
                setattr(part, name, _Lowered(child, precision))
    return copied


def is_lowered(flow: Flow) -> bool:
    """Return whether a flow came from `lowered`."""
    return any(isinstance(part, _Lowered) for part in _modules(flow))


def _modules(flow: Flow) -> list[nn.Module]:
    return list(flow.modules()) if isinstance(flow, nn.Module) else []


class _Lowered(nn.Module):
    """A conditioner's layers, rounded and widened once."""

    def __init__(self, network: Conditioner, precision: str) -> None:
        super().__init__()
        layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        self.activation, self.rounded = network[1], precision == "tf32"
        kind = layers[0].weight.dtype if self.rounded else torch.bfloat16
        self.depth = len(layers)
        for index, layer in enumerate(layers):
            more_in = 0 if index == 0 else -layer.in_features % WIDTH
            more_out = 0 if layer is layers[-1] else -layer.out_features % WIDTH
            weight = pad(layer.weight.detach(), (0, more_in, 0, more_out)).to(kind)
            self.register_buffer(f"weight{index}", weight)
            self.register_buffer(f"bias{index}", pad(layer.bias.detach(), (0, more_out)).to(kind))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the network says, as `x` is."""
        hidden = x if self.rounded else x.bfloat16()
        for index in range(self.depth):
            if index:
                hidden = self.activation(hidden)
            hidden = self._product(hidden, index)
        return hidden.to(x.dtype)

    def _product(self, x: Tensor, index: int) -> Tensor:
        weight, bias = self.get_buffer(f"weight{index}"), self.get_buffer(f"bias{index}")
        return Rounded.product(x, weight) + bias if self.rounded else linear(x, weight, bias)
