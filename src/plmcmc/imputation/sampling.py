"""Draws of a table's holes from its model, row by row, always from a cold start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.chains import progress_bar
from plmcmc.imputation.model import Effort, TableModel
from plmcmc.kernels import Innovations, Metropolis
from plmcmc.posterior.memory import in_chunks, rows_at_once
from plmcmc.rng import Block, Streams
from plmcmc.target import TableTarget

Array = NDArray[np.float64]
Watch = Callable[[slice, int, Array], None]
"""Told some rows, the number of a kept state, and its tables `(rows, chains, columns)` of codes."""


def walk(
    model: TableModel,
    table: Array,
    effort: Effort,
    watch: Watch,
    *,
    states: int,
    thin: int,
    seed: int,
    progress: bool | None = None,
) -> None:
    """Run chains of all members for every row, and show every `thin`-th of `states` states.

    Chains start from the Gaussian's conditional, whatever was learned before: what a row gets
    depends on the model, the seed and its block of 64 rows alone.
    """
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
                for step in range(effort.burn_in + states):
                    state, _ = kernel.step(state, steps)
                    kept, left = divmod(step + 1 - effort.burn_in, thin)
                    if step >= effort.burn_in and left == 0:
                        watch(rows, kept - 1, _tables(model, state.completion, chains))

        in_chunks(len(table), at_once, work, lambda rows: report(rows, ""))


def _tables(model: TableModel, scores: torch.Tensor, chains: int) -> Array:
    """Return `(rows, chains, columns)` of codes."""
    found = model.schema.table(scores.double().cpu().numpy())
    return found.reshape(-1, chains, found.shape[1])
