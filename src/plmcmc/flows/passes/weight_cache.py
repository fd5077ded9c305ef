"""What weights amount to, worked out once and kept for as long as they are promised to stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor, nn

Found = TypeVar("Found")

_PROMISE: ContextVar[object | None] = ContextVar("promise", default=None)


@contextmanager
def constant_weights() -> Iterator[None]:
    """Promise that no flow's weights change within this context.

    Changes of weights cannot always be detected, such as those by a fused optimizer or through
    `.data`. So nothing is cached without this promise, or for longer.
    """
    token = _PROMISE.set(_PROMISE.get() or object())
    try:
        yield
    finally:
        _PROMISE.reset(token)


class Kept:
    """Values made of a module's weights; while somebody wants their slopes nothing is kept."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[tuple, object]] = {}

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        """Copies and pickles begin with nothing."""
        return Kept, ()

    def get(
        self,
        name: str,
        find: Callable[[], Found],
        weights: tuple[Tensor, ...],
        buffers: tuple[Tensor, ...] = (),
        *key: object,
    ) -> Found:
        """Return what `find` says; of the last time, if weights, buffers and key are the same."""
        promise = _PROMISE.get()
        if promise is None or not all(_trackable(weight) for weight in weights):
            return find()
        now = (promise, *key, *((own.data_ptr(), own._version) for own in (*weights, *buffers)))
        held = self._held.get(name)
        if held is not None and held[0] == now:
            return held[1]  # pyright: ignore[reportReturnType]
        found = find()
        if not (torch.is_inference_mode_enabled() or _capturing(weights[0])):
            self._held[name] = (now, found)
        return found


def _trackable(weight: Tensor) -> bool:
    """Return whether a weight tells when it changes, and nobody wants its slope."""
    if type(weight) is not nn.Parameter or weight.is_inference():
        return False
    return not (weight.requires_grad and torch.is_grad_enabled())


def _capturing(weight: Tensor) -> bool:
    """Return whether what is worked out now holds nothing until a graph is replayed."""
    return weight.is_cuda and torch.cuda.is_current_stream_capturing()
