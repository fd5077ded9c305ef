"""A point of a target, and what kernels ask of a target."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from plmcmc.flows import compiled_within, frozen_weights

# Numbers of a batch: the kernels of smaller ones take less time than launching them, and a GPU
# replays their passes.
LARGE = 2**20


class Point(NamedTuple):
    """The state of each row's chain.

    Attributes:
        position: the coordinates that kernels move: latents, or the completed row itself.
        completion: the completed row, `(rows, *event)`.
        log_density: the target there up to a constant, `(rows,)`, float64.
    """

    position: Tensor
    completion: Tensor
    log_density: Tensor


class Target(Protocol):
    """A density over positions whose completions are distributed as p(x_M | x_O)."""

    passes: ClassVar[int]
    """Flow passes that one evaluation costs."""

    @property
    def free(self) -> Tensor | None:
        """True where a position may move; None where everything may."""
        ...

    def start(self, y: Tensor) -> Tensor:
        """Return the position of a full row `y` in data space."""
        ...

    def __call__(self, position: Tensor) -> Point:
        """Evaluate the target."""
        ...


def differentiate(target: Target, position: Tensor) -> tuple[Point, Tensor]:
    """Return the point and the gradient of its log-density, zero where nothing may move.

    Both are compiled, as one function, if the target's flow is.
    """
    flow = compiled_within(getattr(target, "flow", None))
    if flow is None or (position.is_cuda and position.numel() < LARGE):
        return _differentiated(target, target, position)
    fused = flow.fused(_asked, "the density")
    try:
        # All slopes that anybody may want are compiled: nobody wants those of weights here.
        with frozen_weights(flow.flow):
            return _differentiated(target, partial(fused, target), position)
    # The way back is compiled when it is first asked for.
    except RuntimeError as error:
        fused.give_up(error)
        return _differentiated(target, target, position)


def _differentiated(
    target: Target, evaluate: Callable[[Tensor], Point], position: Tensor
) -> tuple[Point, Tensor]:
    with torch.enable_grad():
        leaf = position.detach().requires_grad_()
        point = evaluate(leaf)
        (gradient,) = torch.autograd.grad(point.log_density.sum(), leaf)
    if target.free is not None:
        gradient = gradient * target.free
    return Point(*(field.detach() for field in point)), gradient


def _asked(target: Target, position: Tensor) -> Point:
    return target(position)
