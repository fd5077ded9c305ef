"""An epoch of Monte Carlo EM as a step of the one loop: fit what is complete, complete it anew."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from plmcmc.chains import Acceptance, Schedule, run, stepper_of
from plmcmc.data import Incomplete
from plmcmc.flows import Captured, Compiled, Preprocessed, lowered, while_sampling
from plmcmc.kernels import NonFiniteStart
from plmcmc.posterior import ConvergenceWarning, Method, methods
from plmcmc.posterior.memory import in_chunks, rows_at_once
from plmcmc.posterior.problem import Problem, problem_of
from plmcmc.rng import Block, Streams, rows_of_a_block
from plmcmc.training.ascent import Ascent
from plmcmc.training.divergence import Astray, Steady, TrainingError
from plmcmc.training.maximise import maximise
from plmcmc.training.optimizers import set_rate
from plmcmc.training.refusal import parameters_of
from plmcmc.training.resuming import fill
from plmcmc.training.schedule import EMSchedule

# Of the rows: if more never moved, training learns from where it began.
STUCK = 0.5


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

    def __init__(self, flow: Any, data: Incomplete, schedule: EMSchedule, seed: int) -> None:
        self.flow, self.data, self.schedule, self.seed = flow, data, schedule, seed
        self.inner: Any = flow.flow if isinstance(flow, Preprocessed) else flow
        self.optimizer = schedule.optimizer_of(parameters_of(flow))
        self.ascent = Ascent(
            self.inner,
            self.optimizer,
            clip=schedule.clip,
            precision=schedule.precision,
            compiled=schedule.compiled,
        )
        rate = schedule.learning_rate
        advice = f"lower learning_rate (now {rate}), or set clip to a norm"
        self.steady = Steady(self.optimizer, [self.inner], rate, advice)
        self.range = observed_range(data)
        # Rows with nothing missing are their own completion.
        self.holed = (~data.observed).flatten(1).any(1).nonzero().flatten()
        self.losses = torch.zeros(schedule.epochs, dtype=torch.float64)
        steps = (schedule.epochs - 1) // schedule.every if len(self.holed) > 0 else 0
        self.acceptance = torch.full((steps,), torch.nan, dtype=torch.float64)
        # Checked once: E-steps ask it with other weights.
        asked = data.select(self.holed if len(self.holed) > 0 else slice(1))
        try:
            self.problem = problem_of(flow.eval(), asked.values, asked.observed)
            lowered(flow, schedule.precision)
        except TypeError as error:
            raise TrainingError(str(error)) from error

    def start(self) -> CompletedState:
        """Return the state before the first epoch, which draws the holes itself."""
        epoch = torch.zeros((), dtype=torch.int64)
        return CompletedState(self.data.repeat(self.schedule.copies).values, epoch)

    def step(self, state: CompletedState, streams: Streams) -> tuple[CompletedState, CompletedInfo]:
        """Run one epoch, and the E-step that is due after it."""
        epoch, source = int(state.epoch) + 1, streams.generators[0]
        completed = self.steady.run(
            f"epoch {epoch}", lambda: self._fitted(state.completed, source, epoch)
        )
        last = min(epoch // self.schedule.every, len(self.acceptance))
        rate = float(self.acceptance[last - 1]) if last > 0 else math.nan
        info = CompletedInfo(float(self.losses[epoch - 1]), rate)
        return CompletedState(completed, state.epoch + 1), info

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, the optimizer's moments and the history."""
        tensors = {f"now.{key}": value for key, value in self.inner.state_dict().items()}
        tensors |= self.steady.tensors()
        return tensors | {"losses": self.losses, "acceptance": self.acceptance}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        fill(self.tensors(), tensors, self.inner)

    def _fitted(self, completed: Tensor, source: Generator, epoch: int) -> Tensor:
        """Fit the flow to completed rows; return them, completed anew where that is due."""
        if epoch <= self.schedule.every:
            completed = self._drawn(epoch)
        if self.schedule.falling > 0 or float(self.steady.share) < 1:
            set_rate(self.optimizer, self.schedule.rate_of(epoch) * float(self.steady.share))
        self.losses[epoch - 1] = self._maximise(completed, source)
        self.steady.check(float(self.losses[epoch - 1]), completed[0].numel())
        if self.schedule.expects(epoch) and len(self.holed) > 0:
            with while_sampling():
                completed, rates = self._expect(completed, epoch)
            self.acceptance[epoch // self.schedule.every - 1] = rates.mean()
        return completed

    def _drawn(self, epoch: int) -> Tensor:
        """Return every copy with its holes drawn from N(0, I)."""
        batch = self.data.repeat(self.schedule.copies)
        options = {"chains": self.schedule.copies, "device": batch.values.device}
        streams = Streams.of_rows(self.seed, f"holes-{epoch}", self.data.rows, **options)
        return batch.project(streams.normal(batch.values))

    def _maximise(self, completed: Tensor, source: Generator) -> float:
        self.inner.train()
        log_det = torch.zeros((), dtype=torch.float64)
        if isinstance(self.flow, Preprocessed):
            completed, log_det = self.flow.prepare(completed, source)
        options = {"batch_size": self.schedule.batch_size, "noise": self.schedule.noise}
        loss = maximise(self.ascent, completed, generator=source, **options)
        return float(loss) - float(log_det.mean())

    def _expect(self, completed: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Walk every copy's chain; return where they are, and acceptance of rows with holes."""
        copies, data = self.schedule.copies, self.problem.data
        stacked = completed.unflatten(0, (-1, copies)).clone()
        before, after = stacked[self.holed], torch.empty_like(stacked[self.holed])
        # A method that looks whether the flow has derivatives must not meet it in training.
        self.flow.eval()
        method = self._method(epoch)
        # Another one: what it finds out about the flow is true of these weights only.
        problem = replace(self.problem, flow=self._asked(method))
        rates = torch.zeros(data.rows, dtype=torch.float64)

        def walk(blocks: list[Block]) -> None:
            rows = torch.arange(blocks[0].start, blocks[-1].stop, device=before.device)
            y, rate = self._walked(problem, method, before[rows], blocks, epoch)
            after[rows], rates[rows.cpu()] = y, rate

        numbers = method.footprint(data.values[0].numel(), problem.width, copies)
        in_chunks(
            data.rows,
            rows_at_once(numbers, before),
            walk,
            lambda done: None,
            block_rows=rows_of_a_block(before.device, numbers),
        )
        if self.schedule.clamp:
            after = torch.clamp(after, *self.range)
        # Chains in warped coordinates may round what is seen: the data's own values stay.
        stacked[self.holed] = data.repeat(copies).project(after.flatten(0, 1)).view_as(after)
        self._tell_stuck(rates, data, epoch)
        return stacked.flatten(0, 1), rates

    def _asked(self, method: Method) -> Any:
        """Return the flow as the chains of an E-step ask it."""
        flow = lowered(self.flow, self.schedule.precision)
        if self.schedule.compiled and method.gradient:
            # Steps without slopes are compiled whole.
            flow = Compiled(flow)
        return Captured(flow) if self.data.values.is_cuda else flow

    def _tell_stuck(self, rates: Tensor, data: Incomplete, epoch: int) -> None:
        """Warn if most rows never moved, those apart of which nothing is seen."""
        seen = data.observed.flatten(1).any(1).cpu()
        stuck = float((rates[seen] == 0).double().mean()) if bool(seen.any()) else 0.0
        if stuck > STUCK:
            warnings.warn(
                f"in the E-step after epoch {epoch}, no chain of {stuck:.0%} of the rows moved: "
                "try smaller steps, a wider auxiliary, or start=Unconditional(projected=False)",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _method(self, epoch: int) -> Method:
        method = self.schedule.method_after(epoch)
        if isinstance(method, methods.Auto):
            first = torch.arange(1, device=self.data.values.device)
            return method.choose(self.problem.batch(first, 1))
        return method

    def _walked(
        self,
        problem: Problem,
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
        batch, y = problem.batch(rows, copies), y.flatten(0, 1)
        if self.schedule.start is not None:
            # Of their own: samples that overflow are drawn again, and must not disturb chains.
            first = Streams.of_blocks(self.seed, f"starts-{epoch}", blocks, **options)
            with torch.no_grad():
                y = self.schedule.start(batch.flow, batch.data, first)
        try:
            kernel, state, _ = method.begin(batch, y, None, streams)
        except NonFiniteStart as error:
            raise Astray(f"{len(error.places)} completed rows have no density") from error
        accepted = Acceptance(Schedule(0, proposals), y)
        stepper = stepper_of(kernel, state, compiled=self.schedule.compiled)
        state = run(stepper, state, streams, proposals, recorders=(accepted,))
        rate = accepted.rate.view(-1, copies).mean(1)
        return state.completion.unflatten(0, (-1, copies)), rate.cpu()


def observed_range(data: Incomplete) -> tuple[Tensor, Tensor]:
    """Return each entry's smallest and largest observed value; the whole line if never seen."""
    low = torch.where(data.observed, data.values, torch.inf).amin(0)
    high = torch.where(data.observed, data.values, -torch.inf).amax(0)
    never = ~data.observed.any(0)
    return low.masked_fill(never, -torch.inf), high.masked_fill(never, torch.inf)
