"""Dual averaging (Hoffman and Gelman, 2014), for every row on its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from plmcmc.kernels import Kernel, State
from plmcmc.rng import Streams

_SHRINKAGE, _DELAY, _FORGETTING = 0.05, 10, 0.75


class StepSize(NamedTuple):
    """The step sizes of rows while they are being tuned.

    Attributes:
        log_step: what to try next.
        log_mean: what to keep in the end.
        error: running mean of (wanted - found) acceptance.
        anchor: where `log_step` shrinks to.
        log_largest: what it must not exceed.
        updates: how many were taken in.
    """

    log_step: Tensor
    log_mean: Tensor
    error: Tensor
    anchor: Tensor
    log_largest: float
    updates: int

    @classmethod
    def start(cls, step_size: Tensor, largest: float) -> StepSize:
        """Begin from these steps."""
        log_step, bound = step_size.double().log(), math.log(largest)
        anchor = (log_step + math.log(2)).clamp(max=bound)
        return cls(log_step, log_step, torch.zeros_like(log_step), anchor, bound, 0)

    def update(self, acceptance: Tensor, wanted: float) -> StepSize:
        """Take in the mean acceptance probability of each row's chains."""
        count = self.updates + 1
        share = 1 / (count + _DELAY)
        error = (1 - share) * self.error + share * (wanted - acceptance)
        log_step = self.anchor - math.sqrt(count) / _SHRINKAGE * error
        log_step = log_step.clamp(max=self.log_largest)
        weight = count**-_FORGETTING
        log_mean = weight * log_step + (1 - weight) * self.log_mean
        return StepSize(log_step, log_mean, error, self.anchor, self.log_largest, count)


class Stepped(NamedTuple):
    """Where chains are after tuning, the steps to keep, and what it cost."""

    state: State
    step_size: Tensor
    passes: int


def tune(
    kernel_of: Callable[[Tensor], Kernel],
    state: State,
    step_size: Tensor,
    streams: Streams,
    *,
    wanted: float,
    largest: float,
    length: int,
    watch: Callable[[int, State], None] = lambda step, state: None,
) -> Stepped:
    """Run chains while tuning each row's step to a mean acceptance probability.

    Args:
        kernel_of: makes the kernel with steps `(rows,)`.
        state: where the chains are, those of a row side by side.
        step_size: `(rows,)`, to begin with.
        streams: random numbers.
        wanted: the mean acceptance probability.
        largest: largest step allowed.
        length: steps to run.
        watch: told each step's number and where it led.
    """
    tuning, passes = StepSize.start(step_size, largest), 0
    for step in range(length):
        state, info = kernel_of(tuning.log_step.exp()).step(state, streams)
        rates = info.log_ratio.clamp(max=0).exp().reshape(len(step_size), -1)
        tuning = tuning.update(rates.mean(1), wanted)
        passes += info.passes
        watch(step, state)
    return Stepped(state, tuning.log_mean.exp(), passes)
