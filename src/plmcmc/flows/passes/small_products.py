"""Batched products of few lines, whose every row is the same however many rows there are."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

# Of matrices with fewer lines a processor's products are of another kind, whose last bit depends on
# how many rows there are: on how a table is cut into chunks.
LEAST = 4


def even_product(matrix: Tensor, x: Tensor, shift: Tensor | None = None) -> Tensor:
    """Return `shift + matrix @ x`, and slopes by `x` that are as good.

    Args:
        matrix: `(members, outputs, inputs)`.
        x: `(members, inputs, rows)`.
        shift: `(members, outputs, 1)`.
    """
    outputs, inputs = matrix.shape[1:]
    more, wider = max(0, LEAST - outputs), max(0, LEAST - inputs)
    if more or wider:
        matrix, x = pad(matrix, (0, wider, 0, more)), pad(x, (0, 0, 0, wider))
        shift = None if shift is None else pad(shift, (0, 0, 0, more))
    found = torch.bmm(matrix, x) if shift is None else torch.baddbmm(shift, matrix, x)
    return found[:, :outputs]
