"""One step up the likelihood of a batch; a GPU replays it, since launching costs it more."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.optim import Optimizer

from plmcmc.flows import Flow, log_prob
from plmcmc.flows.passes import captured
from plmcmc.flows.passes.arithmetic import rounded_products
from plmcmc.flows.passes.captured import Replay
from plmcmc.flows.passes.compiled import Fused, with_own_code
from plmcmc.training.bfloat16_weights import Shadows
from plmcmc.training.update import update_of

# A batch has too few rows for its sums to be worth two kernels each.
COMPILER = {"split_reductions": False}
# Steps that are run before one is captured: by then all that is allocated once is.
FIRST = 3


class CaptureWarning(UserWarning):
    """A GPU is used in a slower way than it could be."""


class Ascent:
    """Steps an optimizer by batches of rows.

    On a GPU, batches of the first one's shape are stepped by a captured graph, if the flow can be
    captured; the optimizer must then be `capturable`. Others are stepped as they are.

    Args:
        flow: the flow whose parameters `optimizer` holds.
        optimizer: any torch optimizer.
        clip: largest norm of a gradient.
        precision: that networks compute in (`"float32"`, `"tf32"`, `"bfloat16"`); weights stay as
            they are.
        compiled: fuse what lies between matrix products, for batches of the first one's shape.
    """

    def __init__(
        self,
        flow: Flow,
        optimizer: Optimizer,
        *,
        clip: float | None = None,
        precision: str = "float32",
        compiled: bool = False,
    ) -> None:
        self.flow: Any = flow
        self.optimizer, self.precision = optimizer, precision
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.capturable = all(group.get("capturable", False) for group in optimizer.param_groups)
        self.shadows = Shadows.of(flow) if precision == "bfloat16" else None
        self._working: Any = flow if self.shadows is None else self.shadows.flow
        options = {"clip": clip, "shadows": self.shadows, "compiled": compiled}
        self._update = update_of(optimizer, **options)
        self._loss_of: Callable[[Tensor], Tensor] = self._loss
        if compiled:
            self._loss_of = Fused(with_own_code(self._loss), "the loss", options=COMPILER)
        self.replay: Replay | None = None
        # What a replay reads and writes, and how many batches of the first one's shape there were.
        self.batch: Tensor
        self.loss: Tensor
        self.shape: torch.Size | None = None
        self.taken = 0

    def renew(self) -> None:
        """Go on from the weights as they are: somebody else may have changed them."""
        if self.shadows is not None:
            self.shadows.renew()

    def __call__(self, batch: Tensor) -> Tensor:
        """Step once and return the loss: minus the mean log-likelihood, before the step."""
        if self.replay is not None and batch.shape == self.shape:
            self.batch.copy_(batch)
            self.replay()
            for parameter in self.parameters:
                # A replay changes them unseen, and what was worked out from them may be kept.
                increment_version(parameter)
            return self.loss.clone()
        self.shape = self.shape or batch.shape
        if batch.shape != self.shape:
            return self._step(batch, self._loss)
        self.taken += 1
        if self.capturable and self.taken == FIRST:
            return self._captured(batch)
        return self._step(batch, self._loss_of)

    def _step(self, batch: Tensor, loss_of: Callable[[Tensor], Tensor]) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        if self.shadows is not None:
            self.shadows.begin(training=self.flow.training)
        with torch.enable_grad(), _products(self.precision):
            with _lower(self.precision, batch.device.type):
                loss = loss_of(batch)
            loss.backward()
        with torch.no_grad():
            self._update()
        return loss.detach()

    def _loss(self, batch: Tensor) -> Tensor:
        return -log_prob(self._working, batch).mean()

    def _captured(self, batch: Tensor) -> Tensor:
        """Step once, and capture the step."""
        loss = captured.rehearse(lambda: self._step(batch, self._loss_of))
        self.batch = batch.clone()
        try:
            (self.loss,), self.replay = captured.record(
                lambda: (self._step(self.batch, self._loss_of),)
            )
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            # A flow that waits for the device, or asks it something.
            self.capturable = False
            warnings.warn(
                "could not capture the training steps in a CUDA graph; launching their operations "
                f"one by one ({error!s:.200})",
                CaptureWarning,
                stacklevel=2,
            )
        return loss


def _products(precision: str) -> AbstractContextManager[None]:
    return rounded_products() if precision == "tf32" else nullcontext()


def _lower(precision: str, device: str) -> AbstractContextManager[object]:
    if precision != "bfloat16":
        return nullcontext()
    # Without a cache: a graph must cast the weights of its own step.
    return torch.autocast(device, torch.bfloat16, cache_enabled=False)
