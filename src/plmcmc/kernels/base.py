"""What a kernel is, and the pieces every kernel shares."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from plmcmc.flows import choose_rows
from plmcmc.rng import Streams

State = Any
"""A NamedTuple of tensors with rows first: what the next step needs, at least `completion`."""

AnyState = TypeVar("AnyState", bound=tuple)


class Info(NamedTuple):
    """What happened in a step and does not persist.

    Attributes:
        accepted: bool `(rows,)`: which chains moved to their proposal.
        log_ratio: float64 `(rows,)`: log of the Metropolis-Hastings ratio (0 without a test).
        passes: flow passes the step cost each chain; a gradient through a pass counts as two more.
    """

    accepted: Tensor
    log_ratio: Tensor
    passes: int


class Kernel(Protocol):
    """One step of a Markov chain for every row at once.

    Attributes:
        exact: whether the target is invariant under `step`.
    """

    exact: ClassVar[bool]

    def init(self, y: Tensor) -> State:
        """Return the state of full rows `y` in data space."""
        ...

    def step(self, state: State, streams: Streams) -> tuple[State, Info]:
        """Move every row's chain once."""
        ...


class NonFiniteStart(ValueError):
    """The target is NaN or zero where a chain should start.

    Attributes:
        places: the places in the batch.
    """

    def __init__(self, places: list[int]) -> None:
        self.places = places
        super().__init__(f"the target has no density at the start of {len(places)} chains")


def finite_start(state: AnyState) -> AnyState:
    """Return `state`, or raise if a chain could never leave it."""
    wrong = ~torch.isfinite(state.log_density)  # pyright: ignore[reportAttributeAccessIssue]
    if bool(wrong.any()):
        raise NonFiniteStart(wrong.nonzero().flatten().tolist())
    return state


def choose(accepted: Tensor, proposed: AnyState, current: AnyState) -> AnyState:
    """Take each row from `proposed` where accepted, else from `current`."""
    return type(current)(
        *(choose_rows(accepted, new, old) for new, old in zip(proposed, current, strict=True))
    )


def decide(log_ratio: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
    """Return who is accepted, and the log-ratio with NaN and infinity as minus infinity."""
    log_ratio = acceptable(log_ratio)
    return streams.uniform(log_ratio).log() < log_ratio, log_ratio


def acceptable(log_ratio: Tensor) -> Tensor:
    """Return the log-ratio with NaN and infinity as minus infinity."""
    # Both mean that the flow overflowed out there: such a proposal has no density.
    return torch.nan_to_num(log_ratio, nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)


def positive(**numbers: float | Tensor) -> None:
    """Refuse settings that are not positive and finite; those of tensors are tuned, and are."""
    for name, number in numbers.items():
        if not isinstance(number, Tensor) and not 0 < number < math.inf:
            raise ValueError(f"{name} must be positive and finite; got {number}")


def by_row(number: float | Tensor, like: Tensor) -> float | Tensor:
    """Return one number for all rows as it is, and one per row shaped to multiply `like`."""
    if not isinstance(number, Tensor):
        return number
    return number.reshape(-1, *[1] * (like.ndim - 1)).to(like.dtype)
