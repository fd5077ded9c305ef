"""Training on complete data: maximum likelihood, stopped by rows held out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from plmcmc.adapters import adapt
from plmcmc.chains import fingerprint, going_on, progress_bar, resumed_seed, run
from plmcmc.data import DataError, Incomplete
from plmcmc.flows import ContextualFlow, Dequantise, Flow, Preprocessed, home, sample
from plmcmc.rng import RandomState, Streams, generator
from plmcmc.training.divergence import TrainingError
from plmcmc.training.epoch import Augment, Epoch, EpochInfo, EpochState
from plmcmc.training.optimizers import optimizer_of
from plmcmc.training.refusal import (
    parameters_of,
    refuse_less_than_one,
    refuse_lower_float64,
    refuse_noise,
    refuse_precision,
    refuse_rate,
)
from plmcmc.training.resuming import checkpoint_of, described_flow


class Fitted(NamedTuple):
    """The result of training; the flow itself is trained in place.

    Attributes:
        flow: the flow, at its best epoch.
        train: minus the loss of every epoch, including noise, in nats per row.
        held_out: mean log-likelihood of the held-out rows after every epoch, in nats per row.
        best_epoch: the epoch whose weights were kept, counting from 1.
    """

    flow: Any
    train: list[float]
    held_out: list[float]
    best_epoch: int


def fit_flow(
    flow: Flow,
    x: Any,
    *,
    epochs: int = 200,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    noise: float = 0.05,
    precision: str = "float32",
    compiled: bool = False,
    augment: Augment | None = None,
    held_out: float = 0.1,
    patience: int = 20,
    random_state: RandomState = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> Fitted:
    """Train a flow on complete rows by maximum likelihood, in place.

    The density of an overfit flow is rough, so that samplers do not mix: to avoid this, noise is
    added to the rows, and training stops when the likelihood of held-out rows no longer increases;
    the weights of the best epoch are kept.

    Args:
        flow: a flow with parameters that `plmcmc.adapt` accepts; for a `Preprocessed`, the inner
            flow is trained.
        x: `(rows, *event)`, complete and finite.
        epochs: maximum number of passes over the data.
        batch_size: rows per step.
        learning_rate: learning rate of AdamW, reached within one epoch, then decreasing to zero
            over `epochs` along a cosine.
        weight_decay: weight decay of AdamW.
        noise: standard deviation of noise added to each row, in the flow's own units: after
            whitening, one unit is one standard deviation of a column.
        precision: `"tf32"` or `"bfloat16"` lets networks compute in lower precision, faster on a
            GPU; weights and held-out likelihoods keep that of the flow.
        compiled: let torch compile the steps: faster on a GPU for long trainings, after about 15
            seconds. Needs a C compiler.
        augment: `augment(rows, generator) -> rows` randomly changes training rows before every
            epoch, such as by mirroring images.
        held_out: fraction of rows held out for early stopping; 0 trains for all epochs.
        patience: epochs without improvement of the held-out likelihood before stopping.
        random_state: seed for the split, the shuffling and the noise.
        progress: show a bar; by default on a terminal only.
        checkpoint: file to save to after each epoch and to resume from; saved less often if saving
            would take more than a twentieth of the time.

    Example:
        >>> from plmcmc import RealNVP
        >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> fitted = fit_flow(RealNVP(2, random_state=0), x, epochs=3, random_state=0)
        >>> len(fitted.train)
        3
    """
    flow = _unconditional(flow)
    refuse_noise(noise)
    refuse_less_than_one(epochs=epochs, batch_size=batch_size, patience=patience)
    refuse_rate(learning_rate)
    refuse_precision(precision)
    refuse_lower_float64(flow, precision)
    seed = resumed_seed(checkpoint, random_state)
    optimizer = optimizer_of("adamw", parameters_of(flow), learning_rate, weight_decay=weight_decay)
    train, judge = _split(flow, x, held_out, seed)
    pace = {"epochs": epochs, "batch_size": batch_size, "noise": noise}
    pace |= {"precision": precision, "compiled": compiled}
    epoch = Epoch(flow, train, judge, optimizer, **pace, augment=augment)
    others = {"augment": getattr(augment, "__name__", augment), "learning_rate": learning_rate}
    others |= {"weight_decay": weight_decay, "held_out": held_out, "patience": patience}
    identity = {key: str(value) for key, value in (pace | others | {"seed": seed}).items()}
    identity |= {"data": fingerprint(train, judge), "flow": described_flow(flow)}
    identity |= {"device": train.device.type}
    with progress_bar("Training", epochs, show=progress) as report:
        state = run(
            epoch,
            EpochState.start(),
            Streams([generator(seed, "training", device=train.device)], [1]),
            epochs,
            checkpoint=checkpoint_of(checkpoint, identity),
            on_resume=going_on(report, "epoch"),
            on_step=lambda done, info: report(done, _words(info, _values(flow, train))),
            stop=lambda s: held_out > 0 and bool(s.epoch - s.best_epoch >= patience),
        )
    epoch.keep_best()
    if state.best_epoch == 0:
        raise TrainingError(
            f"the {len(judge)} held-out rows never had a finite likelihood: lower learning_rate "
            f"(now {learning_rate}), check that the flow's preprocessing accepts every row of x, "
            "or train with held_out=0"
        )
    history = epoch.history[: int(state.epoch)]
    return Fitted(flow, history[:, 0].tolist(), history[:, 1].tolist(), int(state.best_epoch))


def _unconditional(flow: Any) -> Flow:
    adapted = adapt(flow)
    if isinstance(adapted, ContextualFlow):
        raise TrainingError("fit_flow takes no contexts: train this flow in its own library")
    return adapted


def _split(flow: Any, x: Any, held_out: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows to train on and rows to judge by, at random."""
    if not 0 <= held_out < 1:
        raise TrainingError(f"held_out must be a fraction of the rows, in [0, 1); got {held_out}")
    where = home(flow)
    data = Incomplete.of(x, dtype=where.dtype, device=where.device)
    _refuse_other_shapes(flow, data)
    gaps = ~data.observed.flatten(1).all(1)
    if bool(gaps.any()):
        raise DataError(
            f"x has missing values at row {int(gaps.nonzero()[0])}: fit_flow trains on complete "
            "rows"
        )
    count = round(held_out * data.rows)
    if count == data.rows or (held_out > 0 and count == 0):
        raise TrainingError(
            f"{data.rows} rows cannot be split with held_out={held_out}: pass more rows, or "
            "held_out=0"
        )
    order = torch.randperm(data.rows, generator=generator(seed, "split"))
    order = order.to(data.values.device)
    return data.values[order[count:]], data.values[order[:count]]


def _refuse_other_shapes(flow: Any, data: Incomplete) -> None:
    with torch.no_grad():
        # In eval mode: a layer that keeps running statistics would take this row in.
        own = sample(flow.eval(), 1, Generator(data.values.device).manual_seed(0))
    expected, got = tuple(own.shape[1:]), tuple(data.values.shape[1:])
    if expected != got:
        raise DataError(f"the flow's rows have shape {expected}; those of x have {got}")


def _values(flow: Any, x: Tensor) -> int | None:
    """Return how many integers a row has; None where values are no integers."""
    steps = flow.chain if isinstance(flow, Preprocessed) else ()
    return x[0].numel() if any(isinstance(step, Dequantise) for step in steps) else None


def _words(info: EpochInfo, values: int | None) -> str:
    if values is None:
        return f"train {info.train:.2f}, held out {info.held_out:.2f} nats per row"
    train, held_out = (bits_per_value(nats, values) for nats in info)
    return f"train {train:.3f}, held out {held_out:.3f} bits per value"


def bits_per_value(nats: float, values: int) -> float:
    """Return the log-likelihood of a row in bits per value (bits per dimension)."""
    return -nats / (values * math.log(2))
