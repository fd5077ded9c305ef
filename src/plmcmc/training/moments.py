"""What an optimizer remembers, as tensors that a checkpoint can save and fill."""

from __future__ import annotations

from torch import Tensor, zeros_like
from torch.optim import Optimizer


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
