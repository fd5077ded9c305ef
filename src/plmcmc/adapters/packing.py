"""Latents in several parts, packed into one flat tensor: the sampler knows no lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import torch
from torch import Tensor


class Packing:
    """A codec between parts of given shapes and `(rows, size)`.

    Example:
        >>> packing = Packing([(2,), (1, 2)])
        >>> flat = packing.pack([torch.zeros(3, 2), torch.ones(3, 1, 2)])
        >>> flat.shape, [tuple(part.shape) for part in packing.unpack(flat)]
        (torch.Size([3, 4]), [(3, 2), (3, 1, 2)])
    """

    def __init__(self, shapes: Iterable[Sequence[int]]) -> None:
        self.shapes = [tuple(shape) for shape in shapes]
        self.sizes = [prod(shape) for shape in self.shapes]

    @property
    def size(self) -> int:
        """Entries of all parts together."""
        return sum(self.sizes)

    def pack(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the parts side by side, `(rows, size)`."""
        flat = [part.flatten(1) for part in parts]
        # Of a single part nothing is copied.
        return flat[0] if len(flat) == 1 else torch.cat(flat, 1)

    def unpack(self, flat: Tensor) -> list[Tensor]:
        """Return the parts in their shapes."""
        parts = flat.split(self.sizes, 1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)]
