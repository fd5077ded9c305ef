"""Draws of a table's holes from its model, row by row, always from a cold start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.adaptation import tune
from plmcmc.chains import Progress, Schedule, in_silence, run
from plmcmc.imputation.convergence import Convergence, Halves
from plmcmc.imputation.model import TableModel, Tilts
from plmcmc.kernels import (
    Kernel,
    MixtureDraws,
    Proposal,
    State,
    differentiated,
    table_moves,
)
from plmcmc.posterior.memory import in_chunks, rows_at_once
from plmcmc.rng import Block, Streams
from plmcmc.target import GaussianReference, TableTarget

Array = NDArray[np.float64]


class Shown(NamedTuple):
    """A kept state of some rows.

    Rows that did not fit into memory at once come again, in parts, from state 0 on.

    Attributes:
        rows: which.
        state: its number.
        tables: codes, `(rows, places, columns)`.
        slopes: of the log-density along each coordinate `(rows, places, scores)`; 0 along those
            that mean nothing.
    """

    rows: slice
    state: int
    tables: Array
    slopes: Array


Watch = Callable[[Shown], None]
# Steps are tuned to this acceptance, from and to at most these angles.
ACCEPTANCE, FIRST_STEP, LARGEST_STEP = 0.8, 0.5, 1.0
# Of fewer trajectories a healthy chain may reject all.
LEAST_STEPS = 8
# Rows worked on at once, at most: what is in use then stays close to the processor.
CPU_ROWS = 256


@dataclass(frozen=True)
class Walk:
    """Chains for every row of a table, and which of their states to show.

    Args:
        model: the table's.
        places: chains of each row, which take turns among the members.
        burn_in: trajectories before the first state; steps are tuned meanwhile.
        states: how many states to show.
        thin: trajectories from one to the next.
        seed: of all that is drawn.
        tilts: to draw from, if not the model's own flow; at each place it is another.
    """

    model: TableModel
    places: int
    burn_in: int
    states: int
    thin: int = 1
    seed: int = 0
    tilts: Tilts | None = None

    def run(self, table: Array, watch: Watch, report: Progress = in_silence) -> Convergence:
        """Walk, and return whether that was enough.

        Chains start from their Gaussian's conditional, whatever was learned before: what a row gets
        depends on the model, the seed and its block of 64 rows alone.

        Args:
            table: codes `(rows, columns)`, NaN at holes.
            watch: shown the states.
            report: told how many rows are done.
        """
        # Chains of different flows do not agree, however long they are.
        checked = self.states if self.tilts is None else 0
        convergence = Convergence(self.model, len(table), checked)

        def work(blocks: list[Block]) -> None:
            rows = slice(blocks[0].start, blocks[-1].stop)
            self._chunk(table[rows], blocks, watch, convergence)

        chunk = rows_per_chunk(self.model, self.places, tilted=self.tilts is not None)
        in_chunks(len(table), chunk, work, lambda rows: report(rows, convergence.words(rows)))
        return convergence

    def _chunk(
        self, table: Array, blocks: list[Block], watch: Watch, convergence: Convergence
    ) -> None:
        rows = slice(blocks[0].start, blocks[-1].stop)
        options = {"chains": self.places, "device": self.model.flow.mean.device}
        start, steps = (
            Streams.of_blocks(self.seed, purpose, blocks, **options)
            for purpose in ("start", "steps")
        )
        # By the model's own Gaussian, what was drawn for few rows is far from round: chains of rare
        # levels take hundreds of trajectories instead of a few.
        gaussian, flow = self.tilts or (None, self.model.ensemble)
        reference = self.model.references(table, gaussian).of(torch.arange(len(table)))
        target = TableTarget(flow, reference)
        bold = self._bold(reference)
        first, kernel, state = _begun(target, self.places, self.burn_in, start, bold)
        schedule = Schedule(0, self.states, self.thin)
        halves = convergence.of(rows, reference.free)
        moving = (reference.low < reference.high)[:, None].cpu().numpy()
        recorder = _Show(schedule, self.model, self.places, rows, moving, watch, halves)
        last = run(kernel, state, steps, schedule.steps, recorders=(recorder,))
        if schedule.steps >= LEAST_STEPS:
            # One that stopped moving after it had settled is stuck, too.
            first = state.position
        if self.burn_in + schedule.steps >= LEAST_STEPS:
            still = (last.position == first).all(1).reshape(len(table), self.places)
            convergence.stuck[rows] = still.any(1).cpu().numpy()

    def _bold(self, reference: GaussianReference) -> list[Proposal]:
        """Return how chains leave for other modes: by mixtures' conditionals, if there are any."""
        mixture = self.model.mixture
        return [] if mixture is None else [MixtureDraws(mixture, reference, self.model.members)]


def rows_per_chunk(model: TableModel, places: int, *, tilted: bool = False) -> int:
    """Return how many rows to work on at once, with so many chains each.

    `tilted`: each chain has a Gaussian of its own.
    """
    width = model.schema.width
    components = 0 if model.mixture is None else model.mixture.log_weight.numel()
    # Matrices of the Gaussian's conditionals, and of the mixtures'.
    matrices = (8 * (places if tilted else 1) + 4 * components) * width**2
    fit = rows_at_once(places * width * 32 + matrices, model.flow.mean)
    return fit if model.flow.mean.is_cuda else min(fit, CPU_ROWS)


def _begun(
    target: TableTarget, places: int, burn_in: int, streams: Streams, bold: list[Proposal]
) -> tuple[Tensor, Kernel, State]:
    """Start chains from the Gaussian's conditional, and tune every row's step while they settle.

    Returns where they began, the tuned kernel, and where they are.
    """
    low = target.reference.low
    position = streams.normal(low.repeat_interleave(places, 0))
    step_size = torch.full((len(low),), FIRST_STEP, dtype=torch.float64, device=low.device)
    with torch.no_grad():
        tuned = tune(
            lambda steps: table_moves(target, steps, bold=bold),
            differentiated(target, position),
            step_size,
            streams,
            wanted=ACCEPTANCE,
            largest=LARGEST_STEP,
            length=burn_in,
        )
    return position, table_moves(target, tuned.step_size, bold=bold), tuned.state


@dataclass(frozen=True)
class _Show:
    """A recorder that keeps nothing: it decodes the scheduled states and shows them."""

    schedule: Schedule
    model: TableModel
    places: int
    rows: slice
    moving: NDArray[np.bool_]
    watch: Watch
    halves: Halves

    def record(self, step: int, state: Any, info: Any) -> None:
        """Show the state if its turn has come."""
        del info
        place = self.schedule.place(step)
        if place is not None:
            self.halves.add(place, state.completion)
            found = self.model.schema.table(state.completion.double().cpu().numpy())
            slopes = state.gradient.double().cpu().numpy()
            tables, slopes = (a.reshape(-1, self.places, a.shape[1]) for a in (found, slopes))
            self.watch(Shown(self.rows, place, tables, slopes * self.moving))

    def tensors(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take nothing over."""
