"""Metropolis steps that encode only what may still be accepted: as the paper walks, a tenth.

How much that is must be asked at every step, which a large batch hardly notices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plmcmc.chains.compiled_steps import CompiledSteps
from plmcmc.chains.replayed import FIRST
from plmcmc.flows import record, rehearse
from plmcmc.flows.passes.compiled import Fused
from plmcmc.kernels import Info, Metropolis
from plmcmc.kernels.half_steps import HalfStep, first_half, second_half
from plmcmc.rng import BLOCK_ROWS, Streams
from plmcmc.target import Point

# Second halves have one of so many sizes, each of which a GPU replays; none is smaller than a block
# of rows, so that a matrix library adds up as it does for all of them.
SIZES = 16


class EarlyRejection:
    """The same steps; what one returns is overwritten by the next.

    Log-ratios that were not looked at are minus infinity.

    Args:
        kernel: whose steps to take.
        most: what a second pass adds to a log-density at most.
        compiled: let torch compile both halves.
        replay: let a GPU replay them.
    """

    def __init__(
        self, kernel: Metropolis, most: Tensor, *, compiled: bool = False, replay: bool = False
    ) -> None:
        first, self.kernel, self.possible = _First(kernel, most), kernel, replay
        self._first = CompiledSteps(first) if compiled else first
        self._second = Fused(_settle, "a step", dynamic=True) if compiled else _settle
        self._own: _Own | None = None
        self._ahead = _Half()
        self._ends: dict[int, _Half] = {}

    def step(self, state: Point, streams: Streams) -> tuple[Point, Info]:
        """Return what the kernel does."""
        own = self._taken(state)
        trial = self._run(self._ahead, lambda: self._first.step(own.state, streams)[0], streams)
        # The one time in a step that the device is waited for.
        size = size_for(int(trial.hopeful), len(trial.order))
        end, work = self._ends.setdefault(size, _Half()), self._second
        if trial is self._ahead.found:
            self._run(end, lambda: work(self.kernel, trial, own, size))
        else:
            # Nothing to record: the next trial will lie elsewhere.
            work(self.kernel, trial, own, size)
        return own.state, Info(own.accepted, own.log_ratio, self.kernel.target.passes)

    def _taken(self, state: Point) -> _Own:
        """Return a state of our own, which is written into."""
        if self._own is None:
            accepted = torch.zeros_like(state.log_density, dtype=torch.bool)
            kept = Point(*(part.clone() for part in state))
            self._own = _Own(kept, accepted, torch.zeros_like(state.log_density))
        for own, given in zip(self._own.state, state, strict=True):
            if own is not given:
                own.copy_(given)
        return self._own

    def _run(self, half: _Half, work: Callable[[], Any], streams: Streams | None = None) -> Any:
        """Do one half of a step, by a replay as soon as there is one."""
        half.taken += 1
        if half.replay is not None:
            if half.streams is not streams:
                raise ValueError(
                    "recorded steps can only use the random streams that they were recorded with"
                )
            half.replay()
            return half.found
        if not self.possible or half.taken <= FIRST:
            return work()
        # The rehearsal is this step's own work; recording does nothing but record.
        done = rehearse(work)
        before = None if streams is None else streams.tensors()
        try:
            sources = () if streams is None else streams.generators
            half.found, half.replay = record(work, sources)
            half.streams = streams
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            if streams is not None and before is not None:
                # Generators that a failed recording has seen may think that it goes on.
                streams.renew(before)
            self.possible = False
        return done


def size_for(hopeful: int, rows: int) -> int:
    """Return how many rows to encode where so many must be."""
    unit = max(BLOCK_ROWS, -(-rows // SIZES))
    return min(rows, -(-max(hopeful, 1) // unit) * unit)


class _Own(NamedTuple):
    """What steps write into."""

    state: Point
    accepted: Tensor
    log_ratio: Tensor


class _Half:
    """One half of a step: how often it was taken, and how to replay it."""

    def __init__(self) -> None:
        self.taken = 0
        self.found: Any = None
        self.replay: Callable[[], None] | None = None
        self.streams: Streams | None = None


class _Spent(NamedTuple):
    passes: int = 1


class _First:
    """The first half as a step of its own, for `CompiledSteps` to compile."""

    def __init__(self, kernel: Metropolis, most: Tensor) -> None:
        self.kernel, self.most = kernel, most

    def step(self, state: Point, streams: Streams) -> tuple[HalfStep, _Spent]:
        return first_half(self.kernel, self.most, state, streams), _Spent()


def _settle(kernel: Metropolis, trial: HalfStep, own: _Own, size: int) -> None:
    """Decide about the first rows in order, and write where they are now."""
    rows = trial.order[:size]
    point, accepted, log_ratio = second_half(kernel, trial, own.state, rows)
    for whole, part in zip(own.state, point, strict=True):
        whole.index_copy_(0, rows, part)
    own.accepted.zero_()
    own.accepted.index_copy_(0, rows, accepted)
    own.log_ratio.fill_(-torch.inf)
    own.log_ratio.index_copy_(0, rows, log_ratio)
