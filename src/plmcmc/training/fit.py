"""Training on complete data: maximum likelihood, stopped by rows held out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from plmcmc.adapters import adapt
from plmcmc.chains import (
    Checkpoint,
    fingerprint,
    going_on,
    progress_bar,
    resumed_seed,
    run,
)
from plmcmc.data import DataError, Incomplete
from plmcmc.flows import ContextualFlow, Dequantise, Flow, Preprocessed, home, sample
from plmcmc.flows.passes.lowered import PRECISIONS
from plmcmc.rng import RandomState, Streams, generator
from plmcmc.training.divergence import TrainingError
from plmcmc.training.epoch import Augment, Epoch, EpochInfo, EpochState
from plmcmc.training.optimizers import optimizer_of

# Weights and moments of a wide network may take longer to save than an epoch takes.
REST = 20.0


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
    refuse_precision(precision)
    refuse_lower_float64(flow, precision)
    seed = resumed_seed(checkpoint, random_state)
    optimizer = optimizer_of("adamw", parameters_of(flow), learning_rate, weight_decay=weight_decay)
    train, judge = _split(flow, x, held_out, seed)
    settings = {"epochs": epochs, "batch_size": batch_size, "noise": noise}
    settings |= {"precision": precision, "compiled": compiled}
    epoch = Epoch(flow, train, judge, optimizer, **settings, augment=augment)
    settings |= {"augment": getattr(augment, "__name__", augment)}
    settings |= {"learning_rate": learning_rate, "weight_decay": weight_decay}
    settings |= {"held_out": held_out, "patience": patience, "seed": seed}
    identity = {key: str(value) for key, value in settings.items()}
    identity |= {"data": fingerprint(train, judge), "flow": described_flow(flow)}
    identity |= {"device": train.device.type}
    with progress_bar("Training", epochs, show=progress) as report:
        state = run(
            epoch,
            EpochState.start(),
            Streams([generator(seed, "training", device=train.device)], [1]),
            epochs,
            checkpoint=None
            if checkpoint is None
            else Checkpoint(Path(checkpoint), identity, 1, REST),
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


def refuse_less_than_one(**numbers: int) -> None:
    """Refuse counts that are none."""
    for name, number in numbers.items():
        if number < 1:
            raise TrainingError(f"{name} must be at least 1; got {number}")


def refuse_noise(noise: float) -> None:
    """Refuse what is no standard deviation."""
    if not 0 <= noise < math.inf:
        raise TrainingError(f"noise must be a standard deviation, 0 or more; got {noise}")


def refuse_lower_float64(flow: Flow, precision: str) -> None:
    """Refuse less precision for a flow in float64, where it would change nothing."""
    if precision != "float32" and home(flow).dtype == torch.float64:
        raise TrainingError(
            f"precision {precision!r} needs a flow in float32; this one is in float64: leave it "
            "out, or call float() on the flow"
        )


def refuse_precision(precision: str) -> None:
    """Refuse what networks cannot compute in."""
    if precision not in PRECISIONS:
        raise TrainingError(f"precision must be one of {list(PRECISIONS)}; got {precision!r}")


def described_flow(flow: Any) -> str:
    """Return what tells two flows apart before training: all but the weights, which a file has."""
    steps = flow.steps.state_dict().values() if isinstance(flow, Preprocessed) else ()
    return f"{flow!r} {fingerprint(*steps)}"


def parameters_of(flow: Any) -> list[nn.Parameter]:
    """Return what is trained of a flow, or say that there is nothing."""
    inner = flow.flow if isinstance(flow, Preprocessed) else flow
    parameters = list(inner.parameters()) if isinstance(inner, nn.Module) else []
    if not any(parameter.requires_grad for parameter in parameters):
        raise TrainingError(f"{type(inner).__name__} has no parameters to train")
    return parameters


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
        raise TrainingError(f"{data.rows} rows cannot be split with held_out={held_out}")
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
