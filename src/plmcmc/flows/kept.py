"""What weights amount to, worked out once and kept until they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")


class Kept:
    """Values made of a module's weights; while somebody trains them nothing is kept."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[object, object]] = {}

    def get(
        self,
        name: str,
        find: Callable[[], Found],
        weights: tuple[Tensor, ...],
        buffers: tuple[Tensor, ...] = (),
        *key: object,
    ) -> Found:
        """Return what `find` says; of the last time, if weights, buffers and key are the same."""
        if not all(_trackable(weight) for weight in weights):
            return find()
        now = (*key, *((own.data_ptr(), own._version) for own in (*weights, *buffers)))
        held = self._held.get(name)
        if held is None or held[0] != now:
            held = self._held[name] = (now, find())
        return held[1]  # pyright: ignore[reportReturnType]


def _trackable(weight: Tensor) -> bool:
    """Return whether a weight tells when it changes, and nobody wants its slope."""
    if type(weight) is not nn.Parameter or weight.is_inference():
        return False
    return not (weight.requires_grad and torch.is_grad_enabled())
