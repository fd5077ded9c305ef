"""Draws of a table's holes from its model, row by row, always from a cold start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.chains import Schedule, progress_bar, run
from plmcmc.imputation.model import Effort, TableModel
from plmcmc.kernels import Innovations, Metropolis
from plmcmc.posterior.memory import in_chunks, rows_at_once
from plmcmc.rng import Block, Streams
from plmcmc.target import TableTarget

Array = NDArray[np.float64]
Watch = Callable[[slice, int, Array], None]
"""Told some rows, the number of a kept state, and its tables `(rows, chains, columns)` of codes.

Rows that did not fit into memory at once come again, in parts, from state 0 on.
"""
# Steps from one state to the next that is looked at: neighbours are nearly the same.
THIN = 3


def walk(
    model: TableModel,
    table: Array,
    effort: Effort,
    watch: Watch,
    *,
    states: int,
    thin: int = THIN,
    seed: int,
    progress: bool | None = None,
) -> None:
    """Run chains of all members for every row, and show `states` states, `thin` steps apart.

    Chains start from the Gaussian's conditional, whatever was learned before: what a row gets
    depends on the model, the seed and its block of 64 rows alone.
    """
    schedule = Schedule(effort.burn_in, states, thin)
    chains = effort.chains * model.flow.members
    width = model.schema.width
    numbers = chains * width * 16 + 4 * width**2
    at_once = rows_at_once(numbers, model.flow.mean)
    with progress_bar("Drawing, rows", len(table), show=progress) as report:

        def work(blocks: list[Block]) -> None:
            rows = slice(blocks[0].start, blocks[-1].stop)
            options = {"chains": chains, "device": model.flow.mean.device}
            start, steps = (
                Streams.of_blocks(seed, purpose, blocks, **options)
                for purpose in ("start", "steps")
            )
            known = model.references(table[rows])
            reference = known.of(torch.arange(len(table[rows])))
            proposal = Innovations(reference, chains)
            kernel = Metropolis(TableTarget(model.flow, reference, chains), proposal)
            with torch.no_grad():
                state = kernel.target(proposal.start(start))
            shown = _Shown(schedule, model, chains, rows, watch)
            run(kernel, state, steps, schedule.steps, recorders=(shown,))

        in_chunks(len(table), at_once, work, lambda rows: report(rows, ""))


@dataclass(frozen=True)
class _Shown:
    """A recorder that keeps nothing: it decodes the scheduled states and shows them."""

    schedule: Schedule
    model: TableModel
    chains: int
    rows: slice
    watch: Watch

    def record(self, step: int, state: Any, info: Any) -> None:
        """Show the state if its turn has come."""
        del info
        place = self.schedule.place(step)
        if place is not None:
            found = self.model.schema.table(state.completion.double().cpu().numpy())
            self.watch(self.rows, place, found.reshape(-1, self.chains, found.shape[1]))

    def tensors(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take nothing over."""
