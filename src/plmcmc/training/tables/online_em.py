"""Monte Carlo EM for tables: chains that persist, a flow that follows them (Algorithm 2, online).

Each update moves a few hundred chains a few steps, then takes one gradient step on what they hold.
Chains walk under an average of the recent weights, which is what is kept in the end.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from plmcmc.data import Regions
from plmcmc.flows import TabularFlow
from plmcmc.kernels import differentiated, table_moves
from plmcmc.rng import Streams
from plmcmc.target import TableTarget
from plmcmc.training.divergence import Astray, Steady
from plmcmc.training.resuming import fill
from plmcmc.training.tables.ascent import TableAscent
from plmcmc.training.tables.gaussian import Gaussian, precision_of
from plmcmc.training.tables.references import References
from plmcmc.training.tables.settings import TableTraining
from plmcmc.training.tables.team import Team
from plmcmc.training.tables.validation import WINDOW, Array, Hidden, ScoreHistory

# Trajectories begin with this angle, and each update corrects it towards this acceptance.
FIRST_STEP, ACCEPTANCE, GAIN = 0.5, 0.8, 0.05
# Chains that a validation looks at, about.
VALIDATED = 8192
ADVICE = (
    "look for a column with values far from all others, or lower learning_rate in the effort's "
    "training"
)
ALONE = Team()


class EMInfo(NamedTuple):
    """What happened in a round: mean loss and acceptance, and the score of hidden values."""

    loss: float
    acceptance: float
    score: float


class EMState(NamedTuple):
    """Where training is; the weights live in the flows.

    Attributes:
        position: every chain's, `(rows * chains, members, columns)`, of this process's rows.
        log_step: log of the angle by which trajectories turn, one for all.
        scores: `(validations, hidden values)`; NaN where not yet done.
        update: updates done.
    """

    position: Tensor
    log_step: Tensor
    scores: Tensor
    update: Tensor


class TableEM:
    """Steps a flow and its chains through one round of updates, for the one loop to run.

    Args:
        flow: to train, from where it is.
        gaussian: of the scores; its conditionals lend the chains their coordinates.
        regions: where scores may lie, the hidden values' anywhere.
        settings: how to train.
        hidden: values to score after each round; without any, training runs to its end.
        round_length: updates of a round.
        team: processes that train together; each has chains of its own share of the rows.
    """

    def __init__(
        self,
        flow: TabularFlow,
        gaussian: Gaussian,
        regions: Regions,
        settings: TableTraining,
        *,
        hidden: Hidden | None = None,
        round_length: int = 50,
        team: Team = ALONE,
    ) -> None:
        self.flow, self.settings, self.round_length = flow, settings, round_length
        self.team = team
        # Nobody wants slopes of what is not trained: chains would carry them along.
        copies = (copy.deepcopy(flow).requires_grad_(False) for _ in range(3))
        self.first, self.averaged, self.best = copies
        self.references = References(gaussian, regions, flow.mean)
        self.rows, columns = regions.low.shape
        if self.rows < team.size:
            raise ValueError(
                f"expected at least one row for each of {team.size} processes; got {self.rows}: "
                "start fewer processes"
            )
        # Two draws of a hidden value are the fewest that it can be scored by.
        self.chains = max(settings.chains_per_row(self.rows), 2 if flow.members == 1 else 1)
        self.hidden = hidden if hidden is not None and len(hidden.rows) else None
        residual = precision_of(gaussian.covariance).diagonal().rsqrt()
        width = settings.smoothing * self.rows ** (-1 / (columns + 4))
        noise = (width * residual).to(flow.mean)
        self.ascent = TableAscent(flow, self.averaged, settings, noise, team)
        trained, rate = [flow, self.averaged], settings.learning_rate
        self.steady = Steady(self.ascent.optimizer, trained, rate, ADVICE)

    @property
    def own(self) -> range:
        """The rows whose chains are this process's."""
        return self.team.share(self.rows)

    @property
    def rounds(self) -> int:
        """How many there are in all."""
        return -(-self.settings.updates // self.round_length)

    def start(self, streams: Streams) -> EMState:
        """Return chains drawn from the Gaussian, and its scores."""
        members, columns = self.flow.members, self.flow.features
        like = self.references.low.new_empty(self.rows * self.chains * members, columns)
        # All of them, whoever's they are: so they are the same for any team.
        position = streams.normal(like).reshape(-1, members, columns)
        log_step = torch.tensor(FIRST_STEP, dtype=torch.float64, device=like.device).log()
        values = 0 if self.hidden is None else len(self.hidden.rows)
        scores = torch.full((1 + self.rounds, values), torch.nan, dtype=torch.float64)
        updates = torch.zeros((), dtype=torch.int64)
        state = self.shared_out(EMState(position, log_step, scores, updates))
        if self.hidden is not None:
            # As often as later scores are averaged over: what training is worth is measured by it.
            source = self.team.source(streams.generators[0])
            many = [self._scored(state, source) for _ in range(WINDOW)]
            scores[0] = torch.stack(many).mean(0)
        return state

    def step(self, state: EMState, streams: Streams) -> tuple[EMState, EMInfo]:
        """Run one round; chains are changed in place."""
        first = int(state.update)
        last = min(first + self.round_length, self.settings.updates)
        where = f"updates {first + 1} to {last}"
        source = self.team.source(streams.generators[0])
        work = partial(self._round, state, source, first, last)
        return self.steady.run(where, work, state.position)

    def _round(
        self, state: EMState, source: Generator, first: int, last: int
    ) -> tuple[EMState, EMInfo]:
        losses, rates = [], []
        for update in range(first, last):
            state, scores, accepted = self._expect(state, source)
            losses.append(self.ascent(scores, source, update, float(self.steady.share)))
            rates.append(accepted)
        means = (self.team.mean(torch.stack(numbers).mean()) for numbers in (losses, rates))
        loss, rate = map(float, means)
        self.steady.check(loss, self.flow.features)
        state = state._replace(update=torch.tensor(last))
        return state, EMInfo(loss, rate, self._validate(state, source))

    def gathered(self, state: EMState) -> EMState:
        """Return the state of all rows: all of a team must ask for it."""
        sizes = [self.chains * len(self.team.share(self.rows, k)) for k in range(self.team.size)]
        return state._replace(position=self.team.gathered(state.position, sizes))

    def shared_out(self, state: EMState) -> EMState:
        """Return this process's part of a state of all rows."""
        own = slice(self.own.start * self.chains, self.own.stop * self.chains)
        return state._replace(position=state.position[own].clone())

    def over(self, state: EMState) -> bool:
        """Whether more training would do harm."""
        return self.hidden is not None and ScoreHistory(state.scores.numpy()).over

    def chosen(self, state: EMState) -> TabularFlow:
        """Return the flow that found hidden values best: the first, if training did not help.

        If it may have helped, half of the members are the first's: errors of the two differ, and
        draws of both are better than of either.
        """
        if self.hidden is None:
            return self.averaged
        history = ScoreHistory(state.scores.numpy())
        if not history.improved:
            return self.first
        return self.best if history.sure else _half_and_half(self.best, self.first)

    def joined_by(self, state: EMState, scores: Array) -> bool:
        """Whether others, who find the hidden values so well, should join the flow."""
        return self.hidden is not None and ScoreHistory(state.scores.numpy()).joined_by(scores)

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, their average and the optimizer's moments."""
        tensors = {f"now.{key}": value for key, value in self.flow.state_dict().items()}
        tensors |= {f"averaged.{key}": value for key, value in self.averaged.state_dict().items()}
        tensors |= {f"best.{key}": value for key, value in self.best.state_dict().items()}
        return tensors | self.steady.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        fill(self.tensors(), tensors, self.flow, self.averaged, self.best)

    def _expect(self, state: EMState, source: Generator) -> tuple[EMState, Tensor, Tensor]:
        """Move some chains of every member a few steps; return where they are."""
        members, batch = self.flow.members, -(-self.settings.batch // self.team.size)
        where = state.position.device
        picked = torch.randint(
            len(state.position), (batch, members), generator=source, device=where
        )
        places = (picked, torch.arange(members, device=where))
        streams = Streams([source], [batch * members])
        reference = self.references.of(self.own.start + (picked // self.chains).flatten())
        target = TableTarget(self.averaged, reference)
        steps = state.log_step.exp().expand(batch * members)
        kernel = table_moves(target, steps, self.settings.turns)
        with torch.no_grad():
            now = differentiated(target, state.position[places].flatten(0, 1))
            now, info = kernel.step(now, streams)
            state.position[places] = now.position.reshape(batch, members, -1)
        accepted = self.team.mean(info.log_ratio.clamp(max=0).exp().mean())
        log_step = (state.log_step + GAIN * (accepted - ACCEPTANCE)).clamp(max=0.0)
        return state._replace(log_step=log_step), now.completion, accepted

    def _validate(self, state: EMState, source: Generator) -> float:
        """Score the hidden values, and keep the flow if it never did better."""
        if self.hidden is None:
            return math.nan
        validation = -(-int(state.update) // self.round_length)
        scores = self._scored(state, source)
        if not bool(scores.isfinite().all()):
            raise Astray("draws of hidden values are NaN or infinite")
        state.scores[validation] = scores
        history = ScoreHistory(state.scores.numpy())
        if history.best == validation:
            self.best.load_state_dict(self.averaged.state_dict())
        return float(history.means[-1])

    def _scored(self, state: EMState, source: Generator) -> Tensor:
        """Move the chains of rows with hidden values, and score what they hold."""
        assert self.hidden is not None
        rows, members = self.hidden.rows, self.flow.members
        chains = min(self.chains, max(1, VALIDATED // (len(rows) * members)))
        ends = [self.team.share(self.rows, rank).stop for rank in range(self.team.size)]
        sizes = np.diff(np.searchsorted(rows, ends), prepend=0)
        mine = rows[np.isin(rows, self.own)]
        mine = torch.as_tensor(mine, device=state.position.device)
        found = self._moved(state, mine, chains, source)
        found = self.team.gathered(found, [chains * members * int(size) for size in sizes])
        return torch.as_tensor(self.hidden.scores(found.double().cpu().numpy()))

    def _moved(self, state: EMState, rows: Tensor, chains: int, source: Generator) -> Tensor:
        """Move the first chains of these rows, and return their scores."""
        members, columns = self.flow.members, self.flow.features
        if not len(rows):
            return state.position.new_empty(0, columns)
        target = TableTarget(self.averaged, self.references.of(rows))
        kernel = table_moves(target, state.log_step.exp().expand(len(rows)), self.settings.turns)
        first = (rows[:, None] - self.own.start) * self.chains
        places = (first + torch.arange(chains, device=rows.device)).flatten()
        with torch.no_grad():
            now = differentiated(target, state.position[places].reshape(-1, columns))
            now, _ = kernel.step(now, Streams([source], [len(now.position)]))
            state.position[places] = now.position.reshape(-1, members, columns)
        return now.completion


def _half_and_half(flow: TabularFlow, other: TabularFlow) -> TabularFlow:
    """Return a flow whose members are by turns those of one and of the other."""
    mixed = copy.deepcopy(flow)
    with torch.no_grad():
        for own, given in zip(mixed.parameters(), other.parameters(), strict=True):
            own[1::2] = given[1::2]
    return mixed
