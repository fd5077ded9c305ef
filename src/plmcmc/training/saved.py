"""How training goes on from what a checkpoint has kept of it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


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
