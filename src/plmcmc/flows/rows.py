"""Rows of a batch: their sums, which of them are finite, and one or the other of two."""

from __future__ import annotations

import torch
from torch import Tensor

# Terms that a GPU may add in their own dtype before it goes on in float64, and how few of them are
# not worth it.
MOST, FEW = 32, 64


def row_sum(terms: Tensor) -> Tensor:
    """Return the sum of each row's entries, `(rows,)`, in float64.

    On a GPU up to 32 terms are added in their own dtype first: an error of their last bits, where
    a sum of hundreds would lose more.
    """
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


def finite_rows(x: Tensor) -> Tensor:
    """Return which rows are finite throughout, bool `(rows,)`."""
    return torch.isfinite(x).reshape(len(x), -1).all(1)


def choose_rows(chosen: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Take each row from `new` where chosen, else from `old`."""
    return torch.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)
