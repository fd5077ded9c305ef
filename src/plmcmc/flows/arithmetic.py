"""How a GPU computes while a chain runs."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch


def full_precision() -> AbstractContextManager[None]:
    """Compute convolutions in float32, the same way every time.

    By default a GPU rounds them to TF32, ten bits: encoding would not undo decoding, and a density
    would not be the one that a Metropolis step compares. Matrix products are whole by default.
    """
    return torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    )
