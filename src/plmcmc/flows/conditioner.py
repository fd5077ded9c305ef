"""What a coupling is made of: two halves of the columns, and a network."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}


def halves(features: int, couplings: int) -> tuple[int, int]:
    """Return the sizes of the halves of columns that so many couplings move by turns."""
    if features < 2:
        raise ValueError(f"a coupling needs at least 2 features; got {features}")
    if couplings < 0:
        raise ValueError(f"couplings must not be negative; got {couplings}")
    return (features + 1) // 2, features // 2


def conditioner(
    inputs: int, outputs: int, width: int, depth: int, activation: str
) -> nn.Sequential:
    """Return a network of `depth` hidden layers that starts at zero, so a flow starts simple."""
    if width < 1 or depth < 1:
        raise ValueError(f"width and depth must be at least 1; got {width} and {depth}")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}; got {activation!r}")
    sizes = [inputs, *[width] * depth]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), ACTIVATIONS[activation]()]
    last = nn.Linear(sizes[-1], outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)
