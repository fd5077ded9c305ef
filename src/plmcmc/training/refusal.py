"""What cannot be trained, or not so, is refused before any work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from plmcmc.flows import Flow, Preprocessed, home
from plmcmc.flows.passes.lowered import PRECISIONS
from plmcmc.training.divergence import TrainingError


def refuse_less_than_one(**numbers: int) -> None:
    """Refuse counts that are none."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TrainingError(f"{name} must be a whole number; got {number!r}")
        if number < 1:
            raise TrainingError(f"{name} must be at least 1; got {number}")


def refuse_noise(noise: float) -> None:
    """Refuse what is no standard deviation."""
    if not 0 <= noise < math.inf:
        raise TrainingError(f"noise must be a standard deviation, 0 or more; got {noise}")


def refuse_rate(rate: float) -> None:
    """Refuse what is no learning rate."""
    if not isinstance(rate, int | float | np.number) or not 0 < rate < math.inf:
        raise TrainingError(f"learning_rate must be a positive number; got {rate!r}")


def refuse_precision(precision: str) -> None:
    """Refuse what networks cannot compute in."""
    if precision not in PRECISIONS:
        raise TrainingError(f"precision must be one of {list(PRECISIONS)}; got {precision!r}")


def refuse_lower_float64(flow: Flow, precision: str) -> None:
    """Refuse less precision for a flow in float64, where it would change nothing."""
    if precision != "float32" and home(flow).dtype == torch.float64:
        raise TrainingError(
            f"precision {precision!r} needs a flow in float32; this one is in float64: leave it "
            "out, or call float() on the flow"
        )


def parameters_of(flow: Any) -> list[nn.Parameter]:
    """Return what is trained of a flow, or say that there is nothing."""
    inner = flow.flow if isinstance(flow, Preprocessed) else flow
    parameters = list(inner.parameters()) if isinstance(inner, nn.Module) else []
    if not any(parameter.requires_grad for parameter in parameters):
        raise TrainingError(f"{type(inner).__name__} has no parameters to train")
    return parameters
