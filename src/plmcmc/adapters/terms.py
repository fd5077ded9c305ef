"""Log-determinants as libraries hand them over, as one term per row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def per_row(terms: Any, like: Tensor) -> Tensor:
    """Return `(rows,)` of a number, of one term per row, or of one per entry of `like`."""
    # Layers of constant volume hand over a plain number.
    terms = torch.as_tensor(terms, device=like.device)
    return terms.flatten(1).sum(1) if terms.ndim > 1 else terms.expand(len(like))
