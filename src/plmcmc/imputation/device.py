"""Where to work: a device by its name."""

from __future__ import annotations

import torch


def device_of(name: str | torch.device) -> torch.device:
    """Return the device of that name, if torch can use it."""
    try:
        device = torch.device(name)
        # Volumes are added up in float64, which some devices lack.
        torch.empty(1, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, ImportError, TypeError) as problem:
        reason = str(problem).splitlines()[0].rstrip(".")
        raise ValueError(
            f"device {str(name)!r} cannot be used: {reason}. Choose 'cpu', or 'cuda' where torch "
            f"sees a GPU"
        ) from problem
    if device.type == "meta":
        raise ValueError("device 'meta' stores no numbers: choose 'cpu' or 'cuda'")
    return device
