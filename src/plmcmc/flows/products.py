"""Matrix products that round what they multiply, with bias and ReLU in one go."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from plmcmc.flows.arithmetic import rounded_products


def product(x: Tensor, weight: Tensor, bias: Tensor, rectified: bool) -> Tensor:
    """Return `x weight^T + bias`, negative ones zero if `rectified`; slopes are of `x` alone."""
    # Only passes whose slopes nobody wants are compiled.
    work = _multiplied if torch.compiler.is_compiling() else Product.apply
    return work(x, weight, bias, rectified)


def _multiply(x: Tensor, weight: Tensor, bias: Tensor, rectified: bool) -> Tensor:
    with rounded_products():
        # What a GPU does to a product before it is written costs nothing.
        work = torch.ops.aten._addmm_activation if rectified else torch.addmm
        return work(bias, x, weight.T)


# For a compiler, which would take it apart: one operation.
_multiplied = torch.library.custom_op("plmcmc::multiplied", _multiply, mutates_args=())


@_multiplied.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, rectified: bool) -> Tensor:
    del bias, rectified
    return x.new_empty(x.shape[0], weight.shape[0])


class Product(Function):
    """`x weight^T + bias`, negative ones zero if `rectified`, by rounded products and in one go.

    Slopes are of `x` alone, and are rounded too.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, rectified: bool) -> Tensor:
        """Multiply."""
        return _multiply(x, weight, bias, rectified)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: Tensor
    ) -> None:
        """Keep what both slopes need."""
        kept = (inputs[1], output)
        ctx.rectified = inputs[3]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the slope of `x`."""
        weight, output = ctx.saved_tensors
        with rounded_products():
            return _open(ctx, output, slope) @ weight, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return how the product moves with `x`."""
        weight, output = ctx.saved_tensors
        with rounded_products():
            return _open(ctx, output, tangent @ weight.T)


def _open(ctx: Any, output: Tensor, slope: Tensor) -> Tensor:
    """Return a slope, zero where negative values were cut off."""
    return slope * (output > 0) if ctx.rectified else slope
