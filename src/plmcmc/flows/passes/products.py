"""Matrix products that round what they multiply, with bias and ReLU in one go."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from plmcmc.flows.passes.arithmetic import rounded_products


def product(x: Tensor, weight: Tensor, bias: Tensor, rectified: bool) -> Tensor:
    """Return `x weight^T + bias`, negative ones zero if `rectified`; slopes are of `x` alone."""
    work = _multiplied if torch.compiler.is_compiling() else Product.apply
    return work(x, weight, bias, rectified)


def _multiply(x: Tensor, weight: Tensor, bias: Tensor, rectified: bool) -> Tensor:
    with rounded_products():
        # What a GPU does to a product before it is written costs nothing.
        work = torch.ops.aten._addmm_activation if rectified else torch.addmm
        return work(bias, x, weight.T)


def _slope(slope: Tensor, weight: Tensor, output: Tensor, rectified: bool) -> Tensor:
    with rounded_products():
        return _open(slope, output, rectified) @ weight


def _open(slope: Tensor, output: Tensor, rectified: bool) -> Tensor:
    """Return a slope, zero where negative values were cut off."""
    return torch.ops.aten.threshold_backward(slope, output, 0) if rectified else slope


# For a compiler, which would take them apart: one operation each.
_multiplied = torch.library.custom_op("plmcmc::multiplied", _multiply, mutates_args=())
_sloped = torch.library.custom_op("plmcmc::sloped", _slope, mutates_args=())


@_multiplied.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, rectified: bool) -> Tensor:
    del bias, rectified
    return x.new_empty(x.shape[0], weight.shape[0])


@_sloped.register_fake
def _(slope: Tensor, weight: Tensor, output: Tensor, rectified: bool) -> Tensor:
    del output, rectified
    return slope.new_empty(slope.shape[0], weight.shape[1])


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: Tensor) -> None:
    ctx.rectified = inputs[3]
    ctx.save_for_backward(inputs[1], output)


def _backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None]:
    return _sloped(slope, *ctx.saved_tensors, ctx.rectified), None, None, None


_multiplied.register_autograd(_backward, setup_context=_keep)


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
        return _slope(slope, weight, output, ctx.rectified), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return how the product moves with `x`."""
        weight, output = ctx.saved_tensors
        with rounded_products():
            return _open(tangent @ weight.T, output, ctx.rectified)
