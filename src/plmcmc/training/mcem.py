"""Monte Carlo EM (the paper's Algorithm 2): any flow, trained on rows with holes.

Epochs of maximum likelihood on completed rows; every so many epochs, chains under the flow as it
is then complete the rows anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.adapters import adapt
from plmcmc.chains import described, fingerprint, going_on, progress_bar, resumed_seed, run
from plmcmc.data import Incomplete, Moments, observed_moments
from plmcmc.data.incomplete import checked
from plmcmc.flows import ContextualFlow, Preprocessed, Whiten, home
from plmcmc.rng import RandomState, Streams, generator
from plmcmc.training.completed import CompletedEpoch, CompletedInfo, observed_range
from plmcmc.training.divergence import TrainingError
from plmcmc.training.refusal import refuse_lower_float64
from plmcmc.training.resuming import checkpoint_of, described_flow
from plmcmc.training.schedule import EMSchedule


class FittedEM(NamedTuple):
    """The result of training; the flow's weights are trained in place.

    Attributes:
        flow: the flow for the user's data, including whitening, if the schedule whitens.
        losses: minus the mean log-likelihood of completed rows in every epoch, in nats per row.
        acceptance: share of proposals accepted in every E-step.
        completed: `(copies, rows, *event)`, the last completions; observed values are the caller's.
    """

    flow: Any
    losses: list[float]
    acceptance: list[float]
    completed: NDArray[np.floating]


@dataclass(frozen=True)
class MonteCarloEM:
    """Monte Carlo EM, the paper's Algorithm 2.

    Args:
        schedule: when and how chains run, and how the flow is fitted in between.

    Example:
        >>> from plmcmc import Linear
        >>> x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
        >>> x[:20, 1] = torch.nan
        >>> schedule = EMSchedule(epochs=4, every=2, proposals=50, copies=2)
        >>> fitted = MonteCarloEM(schedule).fit(Linear(2), x, random_state=0)
        >>> fitted.completed.shape, len(fitted.losses), len(fitted.acceptance)
        ((2, 50, 2), 4, 1)
    """

    schedule: EMSchedule = field(default=EMSchedule())

    def __post_init__(self) -> None:
        """Refuse what is no schedule."""
        if not isinstance(self.schedule, EMSchedule):
            raise TypeError(f"schedule must be an EMSchedule; got {self.schedule!r}")

    def fit(
        self,
        flow: Any,
        x: Any,
        observed: Any = None,
        *,
        random_state: RandomState = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
    ) -> FittedEM:
        """Train a flow on rows with missing entries, in place.

        Args:
            flow: a flow with parameters that `plmcmc.adapt` accepts, for whitened rows.
            x: floating array `(rows, *event)`; NaN marks missing values if `observed` is not given.
            observed: bool array with the shape of `x`, True = observed.
            random_state: seed for initial values, chains and shuffling.
            progress: show a bar; by default on a terminal only.
            checkpoint: file to resume from, and to save to after E-steps, unless this would take
                more than a twentieth of the time.

        Raises:
            TrainingError: if the flow cannot be trained, or training diverged.
        """
        schedule, seed = self.schedule, resumed_seed(checkpoint, random_state)
        inner = adapt(flow)
        if isinstance(inner, ContextualFlow):
            raise TrainingError("MonteCarloEM takes no contexts: train a flow without contexts")
        refuse_lower_float64(inner, schedule.precision)
        values, seen = checked(x, observed)
        where = home(inner)
        data = Incomplete.of(values, seen, dtype=where.dtype, device=where.device)
        moments = _moments_of(data, whiten=schedule.whiten)
        stepper = CompletedEpoch(inner, _whitened(data, moments), schedule, seed)
        identity = {"seed": str(seed), "schedule": described(schedule)}
        identity |= {"data": fingerprint(data.values, data.observed), "flow": described_flow(inner)}
        identity |= {"device": data.values.device.type}
        with progress_bar("Monte Carlo EM", schedule.epochs, show=progress) as report:
            state = run(
                stepper,
                stepper.start(),
                Streams([generator(seed, "shuffle", device=data.values.device)], [1]),
                schedule.epochs,
                # Completions of a large data set are large: they are written when they are new.
                checkpoint=checkpoint_of(checkpoint, identity, schedule.every),
                on_resume=going_on(report, "epoch"),
                on_step=lambda done, info: report(done, _words(info)),
            )
        inner.eval()  # pyright: ignore[reportAttributeAccessIssue]
        offset = float(moments.scale.double().log().sum())
        return FittedEM(
            _behind(moments, inner) if schedule.whiten else inner,
            (stepper.losses + offset).tolist(),
            stepper.acceptance.tolist(),
            _in_users_units(state.completed, moments, schedule, values, seen),
        )


def _moments_of(data: Incomplete, *, whiten: bool) -> Moments:
    if whiten:
        return observed_moments(data)
    one = torch.ones_like(data.values[0])
    return Moments(torch.zeros_like(one), one)


def _whitened(data: Incomplete, moments: Moments) -> Incomplete:
    values = torch.where(data.observed, (data.values - moments.mean) / moments.scale, 0.0)
    return Incomplete(values, data.observed)


def _behind(moments: Moments, flow: Any) -> Preprocessed:
    """Return the flow with whitening before all else."""
    whiten = Whiten(*moments)
    if isinstance(flow, Preprocessed):
        return Preprocessed([whiten, *flow.chain], flow.flow).eval()
    return Preprocessed([whiten], flow).eval()


def _in_users_units(
    completed: Tensor,
    moments: Moments,
    schedule: EMSchedule,
    values: NDArray[np.floating],
    seen: NDArray[np.bool_],
) -> NDArray[np.floating]:
    """Return completions `(copies, rows, *event)`, with the caller's numbers where seen."""
    own = completed.unflatten(0, (-1, schedule.copies)).transpose(0, 1)
    own = (own * moments.scale + moments.mean).cpu().numpy().astype(values.dtype)
    if schedule.clamp:
        # Again, in these units: rounding may have left the range.
        caller = Incomplete(torch.as_tensor(values), torch.as_tensor(seen))
        low, high = observed_range(caller)
        own = np.clip(own, low.numpy(), high.numpy())
    return np.where(seen, values, own)


def _words(info: CompletedInfo) -> str:
    # Before the first E-step nothing was proposed, and of whole rows nothing ever is.
    accepted = "" if math.isnan(info.acceptance) else f", {info.acceptance:.0%} accepted"
    return f"loss {info.loss:.2f} nats per row{accepted}"
