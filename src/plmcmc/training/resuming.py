"""How training goes on: where it is saved, what optimizers remember, and tensors filled again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, zeros_like
from torch.optim import Optimizer

from plmcmc.chains import Checkpoint, fingerprint
from plmcmc.flows import Preprocessed

# A wide network may take longer to save than an epoch takes: saving is to take a twentieth at most.
REST = 20.0


def checkpoint_of(
    path: str | Path | None, identity: Mapping[str, str], every: int = 1
) -> Checkpoint | None:
    """Return what a training saves itself to after so many epochs, if it does."""
    return None if path is None else Checkpoint(Path(path), identity, every, REST)


def described_flow(flow: Any) -> str:
    """Return what tells two flows apart before training: all but the weights, which a file has."""
    steps = flow.steps.state_dict().values() if isinstance(flow, Preprocessed) else ()
    return f"{flow!r} {fingerprint(*steps)}"


def fill(own: Mapping[str, Tensor], saved: Mapping[str, Tensor], *modules: nn.Module) -> None:
    """Copy what was saved into tensors of the same names.

    Args:
        own: the tensors, those of modules among them.
        saved: what was saved of them.
        modules: whose state is filled; they find again what hangs on it, as when one is loaded.
    """
    with torch.no_grad():
        for key, value in own.items():
            value.copy_(saved[key])
    for module in modules:
        module.load_state_dict(module.state_dict())


def moments_of(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the tensors of an optimizer's state, `moment.PLACE.NAME`; zeros before the first step.

    Args:
        optimizer: any of torch's whose state begins at zero (Adam, AdamW, Adamax, RMSprop).
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    lacking = [parameter for parameter in parameters if not optimizer.state[parameter]]
    if lacking:
        _make_up(optimizer, lacking)
    return {
        f"moment.{place}.{name}": value
        for place, parameter in enumerate(parameters)
        for name, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


def _make_up(optimizer: Optimizer, parameters: list[Tensor]) -> None:
    """Let the optimizer make their state by a step that moves nothing, and set it to zero."""
    # Of no others: their moments would fade.
    optimizer.zero_grad(set_to_none=True)
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        # Not even by weight decay.
        group["lr"] = 0.0
    for parameter in parameters:
        parameter.grad = zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    for parameter in parameters:
        for value in optimizer.state[parameter].values():
            if isinstance(value, Tensor):
                value.zero_()
