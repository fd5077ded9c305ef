"""Numbers on a grid, which may be added and taken away without rounding.

An additive coupling is undone exactly if what it adds, and what it adds to, are multiples of a
power of two: then both ways see the same numbers, to the last bit, and networks that round what
they see round it alike. Otherwise the two ways may differ in a last bit, a network may be rounded
the other way, and a density is off by whole nats now and then.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

# Of the 24 bits of a float32, those below the largest numbers of a flow's samples. The others are
# for numbers that are larger still, and for what scaling a grid and back rounds.
BITS = 21


def step_for(numbers: Tensor) -> float:
    """Return the step of a grid for numbers like these: a power of two."""
    largest = float(numbers.abs().max())
    return 2.0 ** (math.ceil(math.log2(largest)) - BITS) if 0 < largest < math.inf else 2.0**-BITS


def on_grid(x: Tensor, step: float | Tensor) -> Tensor:
    """Return the nearest multiples of a power of two; slopes are those of `x`."""
    return whole(x * (1 / step)) * step


def whole(x: Tensor) -> Tensor:
    """Return the nearest whole numbers; slopes are those of `x`."""
    if torch.compiler.is_compiling():
        # Functions of one's own are opaque to a compiler. Both sums are exact.
        return x + (x.round() - x).detach()
    return _Rounded.apply(x)


class _Rounded(Function):
    """Rounding that slopes do not see."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        """Round."""
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the slope as it comes."""
        del ctx
        return slope

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the tangent; not the same one, which torch forbids."""
        del ctx
        return tangent.clone()
