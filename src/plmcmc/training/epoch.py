"""An epoch of training as a step of the one loop, so that it can be recorded and resumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from plmcmc.flows import Preprocessed, log_prob
from plmcmc.rng import Streams
from plmcmc.training.ascent import Ascent
from plmcmc.training.divergence import Steady, TrainingError
from plmcmc.training.maximise import maximise
from plmcmc.training.optimizers import set_rate
from plmcmc.training.resuming import fill

GRADIENT_CLIP = 10.0
# Numbers in the held-out rows that are scored at once.
SCORED = 2**22
# Share of the rate that training begins with; after one epoch it is whole.
LEAST_RATE = 0.02
# Batches whose rows normalising layers take their first moments from.
BATCHES_TO_MEET = 4

Augment = Callable[[Tensor, Generator], Tensor]


class EpochState(NamedTuple):
    """How far training is; the weights live in the flow.

    Attributes:
        epoch: epochs done.
        best_epoch: the one after which the held-out rows were likeliest.
        best: their mean log-likelihood then.
    """

    epoch: Tensor
    best_epoch: Tensor
    best: Tensor

    @classmethod
    def start(cls) -> EpochState:
        """Return the state before the first epoch."""
        return cls(*(torch.tensor(n, dtype=torch.float64) for n in (0, 0, -torch.inf)))


class EpochInfo(NamedTuple):
    """Mean log-likelihoods of one epoch, in nats per row of the user's data."""

    train: float
    held_out: float


class Epoch:
    """Steps a flow through one epoch, and remembers its best weights.

    Args:
        flow: the flow; of a `Preprocessed` one, the inner flow is trained.
        train: rows to train on.
        held_out: rows to judge by; may be none.
        optimizer: holds the inner flow's parameters; its rate grows for one epoch and follows
            a cosine over `epochs`.
        epochs: how many there will be at most.
        batch_size: rows per gradient step.
        noise: deviation of the noise added to the rows the inner flow sees.
        precision: that networks compute in while training; weights stay as they are.
        compiled: let torch compile the steps.
        augment: changes the rows at random before every epoch.
    """

    def __init__(
        self,
        flow: Any,
        train: Tensor,
        held_out: Tensor,
        optimizer: Optimizer,
        *,
        epochs: int,
        batch_size: int,
        noise: float,
        precision: str = "float32",
        compiled: bool = False,
        augment: Augment | None = None,
    ) -> None:
        self.flow, self.train, self.held_out = flow, train, held_out
        self.inner: Any = flow.flow if isinstance(flow, Preprocessed) else flow
        self.optimizer, self.rate = optimizer, float(optimizer.param_groups[0]["lr"])
        self.epochs, self.batch_size, self.noise = epochs, batch_size, noise
        self.augment = augment
        options = {"precision": precision, "compiled": compiled}
        self.ascent = Ascent(self.inner, optimizer, clip=GRADIENT_CLIP, **options)
        advice = (
            f"lower learning_rate (now {self.rate}), raise noise (now {noise}), or whiten the data"
        )
        self.steady = Steady(optimizer, [self.inner], self.rate, advice)
        self.best = _copied(self.inner)
        self.history = torch.zeros(epochs, 2, dtype=torch.float64)

    def step(self, state: EpochState, streams: Streams) -> tuple[EpochState, EpochInfo]:
        """Run one epoch."""
        source = streams.generators[0]
        done = int(state.epoch)
        train = self.steady.run(f"epoch {done + 1}", lambda: self._train(source, done + 1))
        info = EpochInfo(train, self._score(source))
        self.history[done] = torch.tensor(info, dtype=torch.float64)
        # With nothing held out the last epoch is the best. A NaN is never better.
        better = len(self.held_out) == 0 or info.held_out > float(state.best)
        if better:
            self.best = _copied(self.inner)
        best = torch.tensor(info.held_out, dtype=torch.float64) if better else state.best
        best_epoch = state.epoch + 1 if better else state.best_epoch
        return EpochState(state.epoch + 1, best_epoch, best), info

    def keep_best(self) -> None:
        """Leave the flow at its best epoch, in eval mode."""
        self.inner.load_state_dict(self.best)
        self.flow.eval()

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, the optimizer's moments and the history."""
        tensors = {f"now.{key}": value for key, value in self.inner.state_dict().items()}
        tensors |= {f"best.{key}": value for key, value in self.best.items()}
        return tensors | self.steady.tensors() | {"history": self.history}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        fill(self.tensors(), tensors, self.inner)

    def _train(self, source: Generator, epoch: int) -> float:
        self.inner.train()
        rows = self.train if self.augment is None else self.augment(self.train, source)
        x, log_det = self._prepared(rows, source)
        if not bool(getattr(self.inner, "met", True)):
            # Its norms are to begin where the data are.
            some = torch.randperm(len(x), generator=source, device=source.device)
            self.inner.meet(x[some[: BATCHES_TO_MEET * self.batch_size].to(x.device)])
        options = {"batch_size": self.batch_size, "noise": self.noise}
        options |= {"before": lambda share: self._set_rate(epoch - 1 + share)}
        loss = maximise(self.ascent, x, generator=source, **options)
        score = float(log_det.mean() - loss)
        if not math.isfinite(score) and not bool(log_det.isfinite().all()):
            # No step would change that.
            raise TrainingError(
                "some rows of x have no density under the flow's preprocessing: check that it "
                "accepts every row of x"
            )
        self.steady.check(-score, x[0].numel())
        return score

    def _score(self, source: Generator) -> float:
        """Return the mean log-likelihood of the held-out rows."""
        if len(self.held_out) == 0:
            return math.nan
        self.inner.eval()
        scores = []
        with torch.no_grad():
            at_once = max(1, min(4096, SCORED // self.held_out[0].numel()))
            for rows in self.held_out.split(at_once):
                x, log_det = self._prepared(rows, source)
                scores.append(log_prob(self.inner, x) + log_det)
        return float(torch.cat(scores).mean())

    def _prepared(self, x: Tensor, source: Generator) -> tuple[Tensor, Tensor]:
        """Return rows as the inner flow sees them, and the log-det of getting there."""
        if isinstance(self.flow, Preprocessed):
            return self.flow.prepare(x, source)
        return x, torch.zeros(len(x), dtype=torch.float64, device=x.device)

    def _set_rate(self, done: float) -> None:
        """Set the rate after so many epochs: it grows at first, since deep flows would leap."""
        falling = 0.5 * (1 + math.cos(math.pi * done / self.epochs))
        rate = self.rate * falling * min(1.0, LEAST_RATE + done) * float(self.steady.share)
        set_rate(self.optimizer, rate)


def _copied(module: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}
