"""How a GPU computes while a chain runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from plmcmc.flows.passes.weight_cache import constant_weights


@contextmanager
def while_sampling() -> Iterator[None]:
    """Compute in full precision, and promise that no flow's weights change."""
    with full_precision(), constant_weights():
        yield


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute convolutions and matrix products in float32, the same way every time.

    By default a GPU rounds inputs of convolutions to TF32 (ten bits): decoding would then not be
    the exact inverse of encoding, and Metropolis steps would compare wrong densities.
    """
    convolutions = torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    )
    with convolutions, _products("ieee", "highest"):
        yield


def rounded_products() -> AbstractContextManager[None]:
    """Let a GPU round what float32 matrix products multiply to TF32."""
    return _products("tf32", "high")


@contextmanager
def _products(name: str, older: str) -> Iterator[None]:
    """Set how matrix products are computed: by torch's newer switch where it has one."""
    switch = torch.backends.cuda.matmul
    newer = hasattr(switch, "fp32_precision")
    before = str(switch.fp32_precision if newer else torch.get_float32_matmul_precision())

    def turn(to: str) -> None:
        if newer:
            switch.fp32_precision = to
        else:
            torch.set_float32_matmul_precision(to)

    turn(name if newer else older)
    try:
        yield
    finally:
        turn(before)
