"""How a GPU computes while a chain runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute convolutions and matrix products in float32, the same way every time.

    By default a GPU rounds what convolutions multiply to TF32, ten bits: encoding would not undo
    decoding, and a density would not be the one that a Metropolis step compares.
    """
    with (
        torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        ),
        _products("ieee", "highest"),
    ):
        yield


def rounded_products() -> AbstractContextManager[None]:
    """Let a GPU round what float32 matrix products multiply to TF32."""
    return _products("tf32", "high")


@contextmanager
def _products(name: str, older: str) -> Iterator[None]:
    """Set how matrix products are computed: by torch's newer switch where it has one."""
    switch = torch.backends.cuda.matmul
    if hasattr(switch, "fp32_precision"):
        before, switch.fp32_precision = switch.fp32_precision, name
        try:
            yield
        finally:
            switch.fp32_precision = before
        return
    previous = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(older)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(previous)


class Rounded(Function):
    """`x weight^T` with rounded products, its slopes too; only `x` may want one."""

    generate_vmap_rule = True

    @staticmethod
    def product(x: Tensor, weight: Tensor) -> Tensor:
        """Return the product."""
        return Rounded.apply(x, weight)

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        """Multiply."""
        with rounded_products():
            return x @ weight.T

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Keep the weight for both slopes."""
        del output
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the slope of `x`."""
        (weight,) = ctx.saved_tensors
        with rounded_products():
            return slope @ weight, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return how the product moves with `x`."""
        (weight,) = ctx.saved_tensors
        with rounded_products():
            return tangent @ weight.T
