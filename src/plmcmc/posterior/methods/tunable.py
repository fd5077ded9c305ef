"""What methods share whose settings are given, or else tuned and then frozen."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc.adaptation import tune
from plmcmc.flows import BrokenFlow, differentiable
from plmcmc.kernels import Kernel
from plmcmc.posterior.batch import Batch, Begun
from plmcmc.rng import Streams
from plmcmc.target import Target

FIRST_STEP = 0.1


class Tunable(ABC):
    """A method with a target and a step; what of them is not given is tuned first.

    Each is tuned for `tuning` steps, or for a quarter of the warm-up asked for if that is less; the
    rest of the warm-up is burn-in, by default as many steps as are kept.
    """

    tuning: ClassVar[int] = 200
    accepted: ClassVar[float] = 0.234
    """Mean acceptance that a step is tuned to; what random walks do best with."""
    largest: ClassVar[float] = 10.0
    """Largest step that tuning may find."""
    gradient: ClassVar[bool] = False
    """Whether it needs the flow's derivatives."""
    step: float | None

    def __post_init__(self) -> None:
        """Refuse a step that is none."""
        check_step(self.given_step)

    @property
    def given_step(self) -> float | None:
        """The step, or None to tune one; methods without one of that name say what theirs is."""
        return self.step

    @property
    def given_target(self) -> bool:
        """Whether the target has nothing to tune."""
        return True

    @abstractmethod
    def target(self, batch: Batch, y: Tensor, tuning: int, streams: Streams) -> tuple[Target, int]:
        """Return the target, tuned for so many steps if it must be, and the passes spent."""

    @abstractmethod
    def kernel(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return the kernel with steps `(rows,)`."""

    def trial(self, batch: Batch, target: Target, step: Tensor) -> Kernel:
        """Return the kernel to tune steps with; its states are the kernel's own."""
        return self.kernel(batch, target, step)

    def footprint(self, entries: int, holes: int, chains: int) -> int:
        """Return some copies of every chain."""
        del holes
        return 8 * chains * entries

    def burn_in(self, warmup: int | None, kept: int) -> int:
        """Return what tuning leaves of the warm-up, or as many steps as are kept."""
        if warmup is None:
            return kept
        tuned = (not self.given_target) + (self.given_step is None)
        return warmup - tuned * self._tuning(warmup)

    def begin(self, batch: Batch, y: Tensor, warmup: int | None, streams: Streams) -> Begun:
        """Settle the target, then the step."""
        if self.gradient:
            require_derivatives(batch, y)
        length = self._tuning(warmup)
        target, spent = self.target(batch, y, length, streams)
        step = torch.full((len(y) // batch.chains,), FIRST_STEP, dtype=torch.float64)
        step = step.to(y.device)
        if self.given_step is not None:
            kernel = self.kernel(batch, target, torch.full_like(step, self.given_step))
            return Begun(kernel, kernel.init(y), spent)
        state, step, passes = tune(
            lambda steps: self.trial(batch, target, steps),
            self.trial(batch, target, step).init(y),
            step,
            streams,
            wanted=self.accepted,
            largest=self.largest,
            length=length,
        )
        return Begun(self.kernel(batch, target, step), state, spent + passes)

    def _tuning(self, warmup: int | None) -> int:
        return self.tuning if warmup is None else min(self.tuning, warmup // 4)


def require_derivatives(batch: Batch, y: Tensor) -> None:
    """Refuse a flow that a gradient cannot be taken of."""
    if not differentiable(batch.flow, y):
        raise BrokenFlow(
            "the flow has no derivatives, which this method needs: use method='auto' or "
            "'elliptical', and do not ask for the evidence"
        )


def check_step(step: float | None) -> None:
    """Refuse a step that is neither positive and finite nor None."""
    if step is not None and not 0 < step < math.inf:
        raise ValueError(f"step must be positive, or None to tune it; got {step}")
