"""When Monte Carlo EM runs its chains, which ones, and how it fits in between."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import nn
from torch.optim import Optimizer

from plmcmc.chains import Start
from plmcmc.posterior import Method, methods
from plmcmc.training.divergence import TrainingError
from plmcmc.training.optimizers import OPTIMIZERS, optimizer_of
from plmcmc.training.refusal import (
    refuse_less_than_one,
    refuse_noise,
    refuse_precision,
    refuse_rate,
)


@dataclass(frozen=True)
class EMSchedule:
    """When and how chains run and the flow is fitted in between; defaults: the paper's for tables.

    Args:
        epochs: total number of passes over the completed rows.
        every: epochs between two E-steps, and before the first one. Before it, missing values are
            drawn from N(0, I), in whitened units, anew for every epoch.
        proposals: steps of each chain in an E-step.
        copies: chains per row; each completes a copy of the row, on which the flow is trained.
        batch_size: completed rows per gradient step.
        optimizer: `"adam"`, `"adamw"`, `"adamax"` or `"rmsprop"`.
        learning_rate: learning rate of the optimizer.
        falling: fraction of the epochs, at the end, over which the learning rate decreases to zero
            along a cosine; 0 keeps it constant.
        momentum: momentum of RMSprop.
        clip: maximum norm of a gradient; None for no limit.
        noise: standard deviation of noise added to the completed rows in every step, in whitened
            units; smooths the flow, so that chains move.
        precision: precision of the networks, in training and in chains: `"float32"`, or, faster on
            a GPU, `"tf32"` or `"bfloat16"`, for a `NICE` or `RealNVP`.
        compiled: let torch compile the steps of fitting and of chains: faster on a GPU for long
            trainings, after a minute.
        method: sampling method of the chains. Settings that are not given are tuned anew in every
            E-step.
        later: pairs of an epoch and the method of E-steps from the end of that epoch on.
        start: where the chains of every E-step start; None continues from the last completions,
            from which the paper's kernel hardly moves if the auxiliary density is tight (this gives
            a warning).
        whiten: first subtract each entry's observed mean and divide by its observed standard
            deviation. Otherwise `x` is assumed to be whitened.
        clamp: clip completions to each entry's observed range after an E-step, as the paper does.
            Better left out for chains that converge: clipping one end shifts means, and the flow
            learns this shift every time.
    """

    epochs: int = 1000
    every: int = 50
    proposals: int = 2000
    copies: int = 10
    batch_size: int = 3000
    optimizer: str = "adamax"
    learning_rate: float = 2e-3
    falling: float = 0.0
    momentum: float = 0.0
    clip: float | None = None
    noise: float = 0.0
    precision: str = "float32"
    compiled: bool = False
    method: str | Method = field(default=methods.Metropolis())
    later: tuple[tuple[int, str | Method], ...] = ()
    start: Start | None = None
    whiten: bool = True
    clamp: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name in ("epochs", "every", "proposals", "copies", "batch_size"):
            refuse_less_than_one(**{name: getattr(self, name)})
        if self.optimizer not in OPTIMIZERS:
            raise TrainingError(
                f"optimizer must be one of {', '.join(OPTIMIZERS)}; got {self.optimizer!r}"
            )
        refuse_rate(self.learning_rate)
        refuse_precision(self.precision)
        refuse_noise(self.noise)
        if not 0 <= self.falling <= 1:
            raise TrainingError(
                f"falling must be a fraction of the epochs, between 0 and 1; got {self.falling}"
            )
        if self.momentum != 0 and self.optimizer != "rmsprop":
            raise TrainingError(f"momentum is only for RMSprop; {self.optimizer} takes none")
        if self.clip is not None and not self.clip > 0:
            raise TrainingError(
                f"clip must be the largest norm of a gradient, or None; got {self.clip}"
            )
        if self.start is not None and (isinstance(self.start, type) or not callable(self.start)):
            raise TrainingError(
                f"start must be one such as plmcmc.Unconditional(), or None; got {self.start!r}"
            )
        if list(self.later) != sorted(self.later, key=lambda pair: pair[0]):
            raise TrainingError("later must list its epochs in increasing order")
        for method in (self.method, *(later for _, later in self.later)):
            methods.method_of(method)

    def method_after(self, epoch: int) -> Method:
        """Return the method of the E-step at the end of this epoch."""
        begun = [method for first, method in self.later if first <= epoch]
        return methods.method_of(begun[-1] if begun else self.method)

    def expects(self, epoch: int) -> bool:
        """Whether an E-step follows this epoch; none follows the last, which nothing would use."""
        return epoch % self.every == 0 and epoch < self.epochs

    def rate_of(self, epoch: int) -> float:
        """Return the learning rate of this epoch, the first being 1.

        Example:
            >>> schedule = EMSchedule(epochs=8, learning_rate=1.0, falling=0.5)
            >>> [round(schedule.rate_of(epoch), 2) for epoch in (1, 5, 6, 7, 8)]
            [1.0, 1.0, 0.85, 0.5, 0.15]
        """
        falling = self.falling * self.epochs
        fallen = (epoch - 1 - (self.epochs - falling)) / falling if falling > 0 else 0.0
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * max(0.0, fallen)))

    def optimizer_of(self, parameters: list[nn.Parameter]) -> Optimizer:
        """Return the optimizer of these parameters."""
        options = {"momentum": self.momentum} if self.momentum != 0 else {}
        return optimizer_of(self.optimizer, parameters, self.learning_rate, **options)
