"""Sums of rows in float64: terms are as exact as their dtype, and adding them loses nothing."""

from __future__ import annotations

import torch
from torch import Tensor

# Terms that a GPU may add in their own dtype before it goes on in float64, and how few of them are
# not worth it.
MOST, FEW = 32, 64


def row_sum(terms: Tensor) -> Tensor:
    """Return the sum of each row's entries, `(rows,)`, in float64."""
    flat = terms.flatten(1)
    if flat.is_cuda and flat.dtype != torch.float64:
        flat = in_parts(flat)
    return flat.sum(1, dtype=torch.float64)


def in_parts(flat: Tensor) -> Tensor:
    """Return fewer terms with the same sums; a GPU would write a copy of all of them in float64."""
    count = flat.shape[1]
    size = next(size for size in range(MOST, 0, -1) if count % size == 0)
    # Terms that lie apart: neighbours of a row would be added by neighbouring threads.
    return flat if count < FEW or size == 1 else flat.unflatten(1, (size, -1)).sum(1)
