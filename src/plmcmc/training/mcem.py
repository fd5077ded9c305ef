"""Monte Carlo EM (the paper's Algorithm 2): any flow, trained on rows with holes.

Epochs of maximum likelihood on completed rows; every so many epochs, chains under the flow as it
is then complete the rows anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.optim import Adam, Adamax, Optimizer, RMSprop

from plmcmc.adapters import adapt
from plmcmc.chains import Checkpoint, described, fingerprint, progress_bar, resumed_seed, run
from plmcmc.data import Incomplete, observed_moments
from plmcmc.data.incomplete import checked
from plmcmc.data.whitening import Moments
from plmcmc.flows import ContextualFlow, Preprocessed, Whiten, home
from plmcmc.kernels import Info
from plmcmc.kernels.base import NonFiniteStart
from plmcmc.posterior import Conditional, Method, condition, methods
from plmcmc.posterior.memory import in_chunks, rows_at_once
from plmcmc.rng import Block, RandomState, Streams, generator
from plmcmc.training.epoch import TrainingError
from plmcmc.training.fit import described_flow, parameters_of, refuse_less_than_one
from plmcmc.training.maximise import maximise

OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "adamax": Adamax, "rmsprop": RMSprop}


@dataclass(frozen=True)
class Schedule:
    """When chains run, which ones, and how a flow is fitted in between; the paper's for tables.

    Args:
        epochs: passes over the completed rows in all.
        every: epochs between two E-steps, and before the first. In those first ones the holes are
            drawn from N(0, I), in whitened units, afresh for every epoch.
        proposals: steps of each chain in an E-step.
        copies: chains of each row; each completes a copy of the row for the flow to train on.
        batch_size: completed rows per gradient step.
        optimizer: `"adam"`, `"adamax"` or `"rmsprop"`.
        learning_rate: of the optimizer; constant.
        momentum: of RMSprop.
        clip: largest norm of a gradient; None for any.
        method: what chains walk by. What of it is not given is tuned anew in every E-step.
        later: pairs of an epoch and the method of E-steps from the end of that epoch on.
        whiten: subtract each entry's observed mean and divide by its observed deviation first.
            Without, `x` is taken to be whitened.
        clamp: bring completions back into each entry's observed range after an E-step.
    """

    epochs: int = 1000
    every: int = 50
    proposals: int = 2000
    copies: int = 10
    batch_size: int = 3000
    optimizer: str = "adamax"
    learning_rate: float = 2e-3
    momentum: float = 0.0
    clip: float | None = None
    method: str | Method = field(default=methods.Metropolis())
    later: tuple[tuple[int, str | Method], ...] = ()
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
        if self.momentum != 0 and self.optimizer != "rmsprop":
            raise TrainingError(f"momentum is RMSprop's; {self.optimizer} takes none")
        if list(self.later) != sorted(self.later, key=lambda pair: pair[0]):
            raise TrainingError("later must name its epochs in rising order")
        for method in (self.method, *(later for _, later in self.later)):
            methods.method_of(method)

    def method_after(self, epoch: int) -> Method:
        """Return the method of the E-step at the end of this epoch."""
        begun = [method for first, method in self.later if first <= epoch]
        return methods.method_of(begun[-1] if begun else self.method)

    def expects(self, epoch: int) -> bool:
        """Whether an E-step follows this epoch; none follows the last, which nothing would use."""
        return epoch % self.every == 0 and epoch < self.epochs

    def optimizer_of(self, parameters: list[nn.Parameter]) -> Optimizer:
        """Return the optimizer, its state made up as zeros, so that a checkpoint can fill it."""
        options = {"momentum": self.momentum} if self.momentum != 0 else {}
        maker: Any = OPTIMIZERS[self.optimizer]
        optimizer = maker(parameters, lr=self.learning_rate, **options)
        # Without a gradient nothing moves, but every moment is made.
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for moment in _moments(optimizer).values():
            moment.zero_()
        return optimizer


class FittedEM(NamedTuple):
    """What training came to; the flow's weights were trained in place.

    Attributes:
        flow: the flow on the user's data: behind whitening, if the schedule whitens.
        losses: minus the mean log-likelihood of completed rows, every epoch: nats per row.
        acceptance: share of proposals accepted, every E-step.
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
        schedule: when chains run, which ones, and how the flow is fitted in between.

    Example:
        >>> from plmcmc import Linear
        >>> x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
        >>> x[:20, 1] = torch.nan
        >>> schedule = Schedule(epochs=4, every=2, proposals=5, copies=2)
        >>> fitted = MonteCarloEM(schedule).fit(Linear(2), x, random_state=0)
        >>> fitted.completed.shape, len(fitted.losses), len(fitted.acceptance)
        ((2, 50, 2), 4, 1)
    """

    schedule: Schedule = field(default=Schedule())

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
        """Train a flow on rows with holes, in place.

        Args:
            flow: a flow with parameters, plmcmc's or zuko's, on whitened rows.
            x: `(rows, *event)`, floating; NaN marks the holes when `observed` is not given.
            observed: bool, shape of `x`, True = seen.
            random_state: seed of the holes, the chains and the shuffling.
            progress: show a bar; by default on a terminal only.
            checkpoint: file to save to after every E-step, and to resume from.

        Raises:
            TrainingError: when the flow cannot be trained, or training went astray.
        """
        schedule, seed = self.schedule, resumed_seed(checkpoint, random_state)
        inner = adapt(flow)
        if isinstance(inner, ContextualFlow):
            raise TrainingError("MonteCarloEM takes no contexts: train this flow without")
        values, seen = checked(x, observed)
        where = home(inner)
        data = Incomplete.of(values, seen, dtype=where.dtype, device=where.device)
        moments = _moments_of(data, whiten=schedule.whiten)
        stepper = CompletedEpoch(inner, _whitened(data, moments), schedule, seed)
        identity = {"seed": str(seed), "schedule": described(schedule)}
        identity |= {"data": fingerprint(data.values, data.observed), "flow": described_flow(inner)}
        with progress_bar("Monte Carlo EM", schedule.epochs, show=progress) as report:
            state = run(
                stepper,
                stepper.start(),
                Streams([generator(seed, "shuffle", device=data.values.device)], [1]),
                schedule.epochs,
                checkpoint=_saved(checkpoint, identity, schedule),
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


class CompletedState(NamedTuple):
    """Where training is; the weights live in the flow.

    Attributes:
        completed: `(rows * copies, *event)`, whitened, the copies of a row side by side.
        epoch: epochs done.
    """

    completed: Tensor
    epoch: Tensor


class CompletedInfo(NamedTuple):
    """What happened in an epoch: the loss, and the last E-step's acceptance, NaN before it."""

    loss: float
    acceptance: float


class CompletedEpoch:
    """Steps a flow and its completed rows through one epoch, for the one loop to run.

    An E-step comes at the end of its epoch, so that a checkpoint written then has its work.

    Args:
        flow: the flow; of a `Preprocessed` one, the inner flow is trained.
        data: whitened rows.
        schedule: how training goes.
        seed: of the holes and the chains.
    """

    def __init__(self, flow: Any, data: Incomplete, schedule: Schedule, seed: int) -> None:
        self.flow, self.data, self.schedule, self.seed = flow, data, schedule, seed
        self.inner: Any = flow.flow if isinstance(flow, Preprocessed) else flow
        self.optimizer = schedule.optimizer_of(parameters_of(flow))
        self.range = observed_range(data)
        # Rows with nothing missing are their own completion.
        self.holed = (~data.observed).flatten(1).any(1).nonzero().flatten()
        self.losses = torch.zeros(schedule.epochs, dtype=torch.float64)
        steps = (schedule.epochs - 1) // schedule.every if len(self.holed) > 0 else 0
        self.acceptance = torch.full((steps,), torch.nan, dtype=torch.float64)
        condition(flow.eval(), data.values[:1], data.observed[:1])

    def start(self) -> CompletedState:
        """Return the state before the first epoch, which draws the holes itself."""
        epoch = torch.zeros((), dtype=torch.int64)
        return CompletedState(self.data.repeat(self.schedule.copies).values, epoch)

    def step(self, state: CompletedState, streams: Streams) -> tuple[CompletedState, CompletedInfo]:
        """Run one epoch, and the E-step that is due after it."""
        epoch, completed = int(state.epoch) + 1, state.completed
        if epoch <= self.schedule.every:
            completed = self._drawn(epoch)
        self.losses[epoch - 1] = self._maximise(completed, streams.generators[0], epoch)
        due = epoch // self.schedule.every
        if self.schedule.expects(epoch) and len(self.holed) > 0:
            completed, self.acceptance[due - 1] = self._expect(completed, epoch)
        last = min(due, len(self.acceptance))
        rate = float(self.acceptance[last - 1]) if last > 0 else math.nan
        info = CompletedInfo(float(self.losses[epoch - 1]), rate)
        return CompletedState(completed, state.epoch + 1), info

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, the optimizer's moments and the history."""
        tensors = {f"now.{key}": value for key, value in self.inner.state_dict().items()}
        tensors |= {f"moment.{key}": value for key, value in _moments(self.optimizer).items()}
        return tensors | {"losses": self.losses, "acceptance": self.acceptance}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        with torch.no_grad():
            for key, value in self.tensors().items():
                value.copy_(tensors[key])

    def _drawn(self, epoch: int) -> Tensor:
        """Return every copy with its holes drawn from N(0, I)."""
        batch = self.data.repeat(self.schedule.copies)
        options = {"chains": self.schedule.copies, "device": batch.values.device}
        streams = Streams.of_rows(self.seed, f"holes-{epoch}", self.data.rows, **options)
        return batch.project(streams.normal(batch.values))

    def _maximise(self, completed: Tensor, source: Generator, epoch: int) -> float:
        self.inner.train()
        log_det = torch.zeros((), dtype=torch.float64)
        if isinstance(self.flow, Preprocessed):
            completed, log_det = self.flow.prepare(completed, source)
        size, clip = self.schedule.batch_size, self.schedule.clip
        loss = maximise(
            self.inner, completed, self.optimizer, batch_size=size, generator=source, clip=clip
        )
        found = float(loss) - float(log_det.mean())
        if not math.isfinite(found):
            raise TrainingError(
                f"the loss is NaN or infinite in epoch {epoch}: lower learning_rate (now "
                f"{self.schedule.learning_rate}), or give clip a norm"
            )
        return found

    def _expect(self, completed: Tensor, epoch: int) -> tuple[Tensor, float]:
        """Walk every copy's chain on from its completion; return where they are, and acceptance."""
        copies, data = self.schedule.copies, self.data.select(self.holed)
        stacked = completed.unflatten(0, (-1, copies)).clone()
        before, after = stacked[self.holed], torch.empty_like(stacked[self.holed])
        # Made anew: what it finds out about the flow is true of these weights only.
        conditional = condition(self.flow.eval(), data.values, data.observed, check=False)
        method, rates = self._method(conditional, epoch), torch.zeros(data.rows)

        def walk(blocks: list[Block]) -> None:
            rows = torch.arange(blocks[0].start, blocks[-1].stop, device=before.device)
            y, rate = self._walked(conditional, method, before[rows], blocks, epoch)
            after[rows], rates[rows.cpu()] = y, rate

        numbers = method.footprint(data.values[0].numel(), conditional.most_holes, copies)
        in_chunks(data.rows, rows_at_once(numbers, before), walk, lambda done: None)
        if self.schedule.clamp:
            after = torch.clamp(after, *self.range)
        # Chains in warped coordinates may round what is seen: the data's own values stay.
        stacked[self.holed] = data.repeat(copies).project(after.flatten(0, 1)).view_as(after)
        return stacked.flatten(0, 1), float(rates.mean())

    def _method(self, conditional: Conditional, epoch: int) -> Method:
        method = self.schedule.method_after(epoch)
        if isinstance(method, methods.Auto):
            first = torch.arange(1, device=self.data.values.device)
            return method.choose(conditional.batch(first, 1))
        return method

    def _walked(
        self,
        conditional: Conditional,
        method: Method,
        y: Tensor,
        blocks: list[Block],
        epoch: int,
    ) -> tuple[Tensor, Tensor]:
        """Return the completions `(rows, copies, *event)` of some blocks, and rows' acceptance."""
        copies, proposals = self.schedule.copies, self.schedule.proposals
        rows = torch.arange(blocks[0].start, blocks[-1].stop, device=y.device)
        options = {"chains": copies, "device": y.device}
        streams = Streams.of_blocks(self.seed, f"chains-{epoch}", blocks, **options)
        moved = torch.zeros(len(rows) * copies, device=y.device)

        def count(done: int, info: Info) -> None:
            del done
            moved.add_(info.accepted)

        try:
            kernel, state, _ = method.begin(
                conditional.batch(rows, copies), y.flatten(0, 1), None, streams
            )
        except NonFiniteStart as error:
            raise TrainingError(
                f"after epoch {epoch} the flow gives {len(error.places)} completed rows no "
                f"density: lower learning_rate (now {self.schedule.learning_rate})"
            ) from error
        state = run(kernel, state, streams, proposals, on_step=count)
        rate = moved.view(-1, copies).mean(1) / proposals
        return state.completion.unflatten(0, (-1, copies)), rate.cpu()


def observed_range(data: Incomplete) -> tuple[Tensor, Tensor]:
    """Return each entry's smallest and largest observed value; the whole line if never seen."""
    low = torch.where(data.observed, data.values, torch.inf).amin(0)
    high = torch.where(data.observed, data.values, -torch.inf).amax(0)
    never = ~data.observed.any(0)
    return low.masked_fill(never, -torch.inf), high.masked_fill(never, torch.inf)


def _moments(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the tensors of an optimizer's state, by the parameter's place."""
    places = [p for group in optimizer.param_groups for p in group["params"]]
    return {
        f"{index}.{key}": value
        for index, parameter in enumerate(places)
        for key, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


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
    schedule: Schedule,
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


def _saved(
    path: str | Path | None, identity: Mapping[str, str], schedule: Schedule
) -> Checkpoint | None:
    # Completions of a large data set are large: they are written when they are new.
    return None if path is None else Checkpoint(Path(path), identity, schedule.every)


def _words(info: CompletedInfo) -> str:
    return f"loss {info.loss:.2f} nats a row, {info.acceptance:.0%} accepted"
