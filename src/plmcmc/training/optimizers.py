"""Optimizers by name, and as a GPU likes them: steps that can be captured."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
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
    return maker(parameters, **options)


def add_group(optimizer: Optimizer, parameters: list[nn.Parameter], rate: float) -> None:
    """Let an optimizer step further parameters, at a learning rate of their own."""
    where = parameters[0].device
    lr = torch.tensor(rate, device=where) if where.type == "cuda" else rate
    optimizer.add_param_group({"params": parameters, "lr": lr})


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate."""
    for group in optimizer.param_groups:
        # In place where it is a tensor: a captured step reads it there.
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
