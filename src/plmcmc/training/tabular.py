"""Monte Carlo EM for tables: chains that persist, a flow that follows them (Algorithm 2, online).

Each update moves a few hundred chains a few steps, then takes one gradient step on what they hold.
Chains walk under an average of the recent weights, which is what is kept in the end.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.optim import AdamW

from plmcmc.data import Regions
from plmcmc.flows import TabularFlow, log_prob
from plmcmc.kernels import Innovations, Metropolis
from plmcmc.rng import Streams
from plmcmc.target import Reference, TableTarget
from plmcmc.training.gaussian import Gaussian, conditionals
from plmcmc.training.moments import moments_of

GRADIENT_CLIP = 10.0
# Of the triangular layer, which starts where it should be.
TRIANGULAR_RATE = 0.25
_TRIANGULAR = ("mean", "lower", "log_diagonal")


@dataclass(frozen=True)
class TableTraining:
    """How a table's flow is trained.

    Args:
        updates: gradient steps in all.
        kernel_steps: steps of each chain before each update.
        batch: chains of each member in an update.
        learning_rate: of AdamW, falling to nothing along a cosine.
        weight_decay: of AdamW.
        smoothing: noise added to the rows, in residual deviations, times `rows^(-1/(columns+4))`.
        average: weight of the past in the running average of the weights.
        chains: chains of each member for all rows together, at most 8 and at least 1 a row.
    """

    updates: int = 1500
    kernel_steps: int = 2
    batch: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    smoothing: float = 0.15
    average: float = 0.995
    chains: int = 4500

    def chains_per_row(self, rows: int) -> int:
        """Return how many chains each member has for each row."""
        return min(8, max(1, round(self.chains / rows)))


class References:
    """The Gaussian's conditionals of a table's rows, one set of matrices for each pattern."""

    def __init__(self, gaussian: Gaussian, regions: Regions, dtype: torch.dtype) -> None:
        self.low, self.high = (torch.as_tensor(end).to(dtype) for end in regions)
        observed = ~(torch.isinf(self.low) & torch.isinf(self.high))
        patterns, self.which = torch.unique(observed, dim=0, return_inverse=True)
        found = conditionals(gaussian, patterns)
        self.gain, self.root = found.gain.to(dtype), found.root.to(dtype)
        self.mean = gaussian.mean.to(dtype)

    def of(self, rows: Tensor) -> Reference:
        """Return the reference of places that hold these rows."""
        which = self.which[rows]
        return Reference(
            self.low[rows], self.high[rows], self.mean, self.gain[which], self.root[which]
        )


class EMInfo(NamedTuple):
    """What happened in a round: mean loss and acceptance."""

    loss: float
    acceptance: float


class EMState(NamedTuple):
    """Where training is; the weights live in the flows.

    Attributes:
        position: every chain's, `(rows * chains, members, columns)`.
        update: updates done.
    """

    position: Tensor
    update: Tensor


class TableEM:
    """Steps a flow and its chains through one round of updates, for the one loop to run."""

    def __init__(
        self,
        flow: TabularFlow,
        gaussian: Gaussian,
        regions: Regions,
        settings: TableTraining,
        *,
        round_length: int = 50,
    ) -> None:
        self.flow, self.settings, self.round_length = flow, settings, round_length
        self.averaged = copy.deepcopy(flow)
        self.references = References(gaussian, regions, flow.mean.dtype)
        self.rows, columns = regions.low.shape
        self.chains = settings.chains_per_row(self.rows)
        self.optimizer = AdamW(self._groups(), weight_decay=settings.weight_decay)
        residual = torch.linalg.inv(gaussian.covariance).diagonal().rsqrt()
        width = settings.smoothing * self.rows ** (-1 / (columns + 4))
        self.noise = (width * residual).to(flow.mean.dtype)

    def start(self, streams: Streams) -> EMState:
        """Return chains drawn from the Gaussian."""
        reference = self.references.of(torch.arange(self.rows))
        members = self.flow.members
        drawn = Innovations(reference, chains=self.chains * members).start(streams)
        position = drawn.reshape(-1, members, self.flow.features)
        return EMState(position, torch.zeros((), dtype=torch.int64))

    def step(self, state: EMState, streams: Streams) -> tuple[EMState, EMInfo]:
        """Run one round; chains are changed in place."""
        source, losses, rates = streams.generators[0], [], []
        first = int(state.update)
        last = min(first + self.round_length, self.settings.updates)
        for update in range(first, last):
            self._set_rate(0.5 * (1 + math.cos(math.pi * update / self.settings.updates)))
            scores, accepted = self._expect(state, source)
            losses.append(self._maximise(scores, source))
            rates.append(accepted)
            self._average(update)
        info = EMInfo(float(torch.stack(losses).mean()), float(torch.stack(rates).mean()))
        return state._replace(update=torch.tensor(last)), info

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, their average and the optimizer's moments."""
        tensors = {f"now.{key}": value for key, value in self.flow.state_dict().items()}
        tensors |= {f"averaged.{key}": value for key, value in self.averaged.state_dict().items()}
        return tensors | moments_of(self.optimizer)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        with torch.no_grad():
            for key, value in self.tensors().items():
                value.copy_(tensors[key])

    def _expect(self, state: EMState, source: Generator) -> tuple[Tensor, Tensor]:
        """Move some chains of every member a few steps; return where they are."""
        members, batch = self.flow.members, self.settings.batch
        picked = torch.randint(len(state.position), (batch, members), generator=source)
        places = (picked, torch.arange(members))
        streams = Streams([source], [batch * members])
        reference = self.references.of((picked // self.chains).flatten())
        kernel = Metropolis(TableTarget(self.averaged, reference), Innovations(reference))
        accepted = torch.zeros(())
        with torch.no_grad():
            now = kernel.target(state.position[places].flatten(0, 1))
            for _ in range(self.settings.kernel_steps):
                now, info = kernel.step(now, streams)
                accepted = info.accepted.double().mean()
            state.position[places] = now.position.reshape(batch, members, -1)
        return now.completion, accepted

    def _maximise(self, scores: Tensor, source: Generator) -> Tensor:
        noise = torch.randn(scores.shape, generator=source, dtype=scores.dtype)
        with torch.enable_grad():
            # Members share nothing, and their losses are added up.
            loss = -log_prob(self.flow, scores + self.noise * noise).mean() * self.flow.members
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.flow.parameters(), GRADIENT_CLIP)
            self.optimizer.step()
        return loss.detach() / self.flow.members

    def _average(self, update: int) -> None:
        # Shorter at first: the start is no part of the average.
        keep = min(self.settings.average, (update + 1) / (update + 10))
        with torch.no_grad():
            for old, new in zip(self.averaged.parameters(), self.flow.parameters(), strict=True):
                old.lerp_(new, 1 - keep)

    def _groups(self) -> list[dict]:
        rate = self.settings.learning_rate
        named = dict(self.flow.named_parameters())
        triangular = [named[name] for name in _TRIANGULAR]
        others = [p for name, p in named.items() if name not in _TRIANGULAR]
        return [
            {"params": others, "lr": rate, "full": rate},
            {"params": triangular, "lr": rate, "full": rate * TRIANGULAR_RATE},
        ]

    def _set_rate(self, share: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = share * group["full"]
