"""Weights stepped by their slopes, in few kernels if torch may compile it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer, RMSprop
from torch.optim.rmsprop import rmsprop

from plmcmc.flows.passes.compiled import Fused, with_own_code
from plmcmc.training.bfloat16_weights import Shadows
from plmcmc.training.resuming import moments_of


def update_of(
    optimizer: Optimizer,
    *,
    clip: float | None = None,
    shadows: Shadows | None = None,
    compiled: bool = False,
) -> Callable[[], None]:
    """Return what steps an optimizer's weights, and whatever hangs on them.

    Args:
        optimizer: any of torch's.
        clip: largest norm of a gradient.
        shadows: copies of weights, from which slopes come and which follow.
        compiled: let torch compile it.
    """
    if compiled and clip is None and _is_plain_rmsprop(optimizer):
        return Fused(with_own_code(_by_slopes(optimizer, shadows)), "the update")
    weights = [own for group in optimizer.param_groups for own in group["params"]]

    def before() -> None:
        if shadows is not None:
            shadows.hand_over()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(weights, clip)

    def after() -> None:
        if shadows is not None:
            shadows.renew()

    parts = [before, _bare(optimizer) if compiled else optimizer.step, after]
    if compiled:
        _keep_rates_in_tensors(optimizer)
        # Each on its own: where one cannot be compiled, the others are not run twice.
        parts = [Fused(with_own_code(part), "the update") for part in parts]

    def update() -> None:
        for part in parts:
            part()

    return update


def _keep_rates_in_tensors(optimizer: Optimizer) -> None:
    """Keep learning rates where they can change: for every other number torch would compile."""
    for group in optimizer.param_groups:
        group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32)


def _is_plain_rmsprop(optimizer: Optimizer) -> bool:
    groups = optimizer.param_groups
    return isinstance(optimizer, RMSprop) and len(groups) == 1 and not groups[0]["centered"]


def _bare(optimizer: Optimizer) -> Callable[[], object]:
    """Return a step without what torch wraps around it for its profiler, and cannot compile."""
    step: Any = inspect.unwrap(type(optimizer).step)
    return lambda: step(optimizer)


def _by_slopes(optimizer: Optimizer, shadows: Shadows | None) -> Callable[[], None]:
    """Return an update that torch compiles whole: it stops wherever a weight is given a slope."""
    # All that an optimizer keeps is there from now on.
    moments_of(optimizer)
    (group,) = optimizer.param_groups
    weights, kept = group["params"], [optimizer.state[own] for own in group["params"]]
    squares, steps = ([own[name] for own in kept] for name in ("square_avg", "step"))
    momenta = [own["momentum_buffer"] for own in kept if "momentum_buffer" in own]
    names = ("alpha", "eps", "weight_decay", "momentum", "maximize", "capturable")
    options = {name: group[name] for name in names} | {"centered": False, "foreach": True}
    sources = weights if shadows is None else shadows.in_place_of(weights)

    def update() -> None:
        given = {k: own.grad for k, own in enumerate(sources) if own.grad is not None}
        used, slopes = list(given), [given[k].to(weights[k].dtype) for k in given]
        own, found = ([all_of[k] for k in used] for all_of in (weights, squares))
        speeds = [momenta[k] for k in used] if momenta else []
        rmsprop(own, slopes, found, [], speeds, [steps[k] for k in used], lr=group["lr"], **options)
        if shadows is not None:
            shadows.renew()

    return update
