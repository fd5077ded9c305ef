"""What training does when its numbers go astray: back to where they were good, by smaller steps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from plmcmc.training.resuming import moments_of

Found = TypeVar("Found")
# What is left of the steps after each fault, and after how many in a row there is an error.
SMALLER, MOST = 0.5, 5
# A loss that rises by so many times itself, and so many nats for each number of a row, is lost.
LEAP = 100.0


class TrainingError(ValueError):
    """Training cannot start, or cannot continue."""


class FaultWarning(UserWarning):
    """Training diverged, and continues from the last good state with smaller steps."""


class Astray(ArithmeticError):
    """Numbers are not finite any more, or have leapt; says how."""


class Steady:
    """Runs stretches of training; one that goes astray is run again, from where it began.

    Looks at numbers once in a stretch: a GPU does not wait for it at every step.

    Args:
        optimizer: holds what is trained.
        modules: what is trained, and what follows it.
        rate: learning rate that was asked for.
        advice: what to do if smaller steps do not help.

    Attributes:
        share: of the rate that is taken, 1 if all went well.
        loss: of the last good stretch, NaN before there is one.
    """

    def __init__(
        self, optimizer: Optimizer, modules: Sequence[nn.Module], rate: float, advice: str
    ) -> None:
        self.optimizer, self.modules, self.rate, self.advice = optimizer, modules, rate, advice
        self.share = torch.ones((), dtype=torch.float64)
        self.loss = torch.full((), torch.nan, dtype=torch.float64)
        self.states: list[Tensor] = []
        self.good: list[Tensor] = []

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs, the optimizer's moments among it."""
        return moments_of(self.optimizer) | {"steady.share": self.share, "steady.loss": self.loss}

    def run(self, where: str, work: Callable[[], Found], *others: Tensor) -> Found:
        """Return what a stretch of training comes to.

        Args:
            where: its name, in words.
            work: trains, and raises `Astray` if it went so.
            others: tensors that it changes in place beside the modules.

        Raises:
            TrainingError: if it goes astray again and again.
        """
        self.states = [own for module in self.modules for own in module.state_dict().values()]
        own = [*self.states, *others, *self._moments()]
        self._keep(own)
        faults = 0
        while True:
            try:
                return work()
            except Astray as problem:
                faults += 1
                if faults == MOST:
                    raise TrainingError(
                        f"{problem} in {where}, {MOST} times in a row: {self.advice}"
                    ) from problem
                self._go_back(own)
                self.share *= SMALLER
                _warn(f"{problem} in {where}", self.rate * float(self.share))

    def check(self, loss: float, values: int) -> None:
        """Note the loss of a stretch, whose rows have so many values; raise if it is lost.

        Raises:
            Astray: if the loss or a weight is not finite, or the loss has leapt.
        """
        if not math.isfinite(loss):
            raise Astray("the loss is NaN or infinite")
        before = float(self.loss)
        # Nothing is above NaN.
        if loss > before + LEAP * (abs(before) + values):
            raise Astray(f"the loss jumped from {before:.3g} to {loss:.3g}")
        # A loss is a step older than the weights.
        weights = [own for own in self.states if own.is_floating_point()]
        if not bool(get_total_norm(weights).isfinite()):
            raise Astray("weights are NaN or infinite")
        self.loss.fill_(loss)

    def _moments(self) -> list[Tensor]:
        """What the optimizer remembers by now: nothing before its first step."""
        states = self.optimizer.state.values()
        return [own for state in states for own in state.values() if isinstance(own, Tensor)]

    def _keep(self, own: list[Tensor]) -> None:
        """Copy what is good; into the same memory, stretch after stretch."""
        if [part.shape for part in own] != [part.shape for part in self.good]:
            self.good = [torch.empty_like(part) for part in own]
        for good, part in zip(self.good, own, strict=True):
            good.copy_(part)

    @torch.no_grad()
    def _go_back(self, own: list[Tensor]) -> None:
        """Put everything back in place: a captured step reads it there."""
        for good, part in zip(self.good, own, strict=True):
            part.copy_(good)
        before = {id(part) for part in own}
        for moment in self._moments():
            # What an optimizer remembers begins at zero.
            if id(moment) not in before:
                moment.zero_()
        for module in self.modules:
            # It finds again what hangs on its weights, as when one is loaded.
            module.load_state_dict(module.state_dict())


def _warn(problem: str, rate: float) -> None:
    warnings.warn(
        f"{problem}: restored the last good state; continuing with a learning rate of {rate:.3g}",
        FaultWarning,
        stacklevel=2,
    )
