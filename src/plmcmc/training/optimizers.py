"""Optimizers by name, and as a GPU likes them: steps that can be captured, in few kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Adam, Adamax, AdamW, Optimizer, RMSprop

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adam": Adam,
    "adamw": AdamW,
    "adamax": Adamax,
    "rmsprop": RMSprop,
}
# Those that torch has written as one kernel.
FUSED = ("adam", "adamw")


def optimizer_of(
    name: str, parameters: list[nn.Parameter], rate: float, **options: Any
) -> Optimizer:
    """Return an optimizer; on a GPU one whose steps can be captured, with a rate that can change.

    Args:
        name: one of `OPTIMIZERS`.
        parameters: what it steps.
        rate: learning rate.
        **options: others that it takes.
    """
    maker: Any = OPTIMIZERS[name]
    where = parameters[0].device
    if where.type != "cuda":
        return maker(parameters, lr=rate, **options)
    options |= {"lr": torch.tensor(rate, device=where), "capturable": True}
    if name in FUSED:
        return maker(parameters, fused=True, **options)
    optimizer = maker(parameters, **options)
    # Kernel by kernel, updates cost as much as gradients.
    optimizer.step = compiled(optimizer)
    return optimizer


def compiled(optimizer: Optimizer) -> Callable[[], None]:
    """Return an optimizer's step in fewer kernels, where torch can compile it; else as it is."""
    launched = optimizer.step
    # Without what torch wraps around it for its profiler, which cannot be compiled.
    bare: Any = inspect.unwrap(type(optimizer).step)
    fast: Callable[[], None] | None = torch.compile(lambda: bare(optimizer))

    @torch.no_grad()
    def step() -> None:
        nonlocal fast
        if fast is not None:
            try:
                fast()
            except RuntimeError as error:
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                # No compiler on this machine: nothing has been stepped yet.
                fast = None
            else:
                return
        launched()

    return step
