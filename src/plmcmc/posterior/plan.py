"""One call of `Conditional.sample`: chunks of rows through the loop, and their results together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.chains import (
    Acceptance,
    Checkpoint,
    Completions,
    NothingSeen,
    Progress,
    Schedule,
    Start,
    described,
    fingerprint,
    progress_bar,
    run,
    start_of,
    stepper_of,
)
from plmcmc.data import DataError, Incomplete
from plmcmc.disk import check_directory
from plmcmc.flows import Captured, Compiled
from plmcmc.kernels import NonFiniteStart
from plmcmc.posterior.batch import Batch, Begun, Method
from plmcmc.posterior.checks import without_density
from plmcmc.posterior.draws import Draws
from plmcmc.posterior.memory import in_chunks, memory_ran_out, rows_at_once
from plmcmc.posterior.quality_warnings import named_rows
from plmcmc.rng import Block, Streams, rows_of_a_block

if TYPE_CHECKING:
    from plmcmc.posterior.problem import Problem


@dataclass(frozen=True)
class Plan:
    """What a call asks for."""

    conditional: Problem
    schedule: Schedule
    chains: int
    method: Method
    method_name: str
    warmup: int | None
    start: Start
    seed: int
    chunk_rows: int | None
    checkpoint: Path | None
    checkpoint_every: int

    def run(self, *, progress: bool | None) -> Draws:
        """Run every chunk and put the results together."""
        collected = _Collected.empty(self)
        # Rows without holes are their own completion, for free.
        rows = (~self.conditional.data.observed).flatten(1).any(1).nonzero().flatten()
        if len(rows) == 0:
            return collected.draws(self)
        if self.checkpoint is not None:
            # Before chains are tuned, which may take longer than a save is away.
            check_directory(self.checkpoint)
        steps = self.schedule.steps
        with progress_bar(
            f"Sampling, {self.chains} chains per row", steps, show=progress
        ) as report:

            def work(blocks: list[Block]) -> None:
                chunk = _Chunk(self, rows[blocks[0].start : blocks[-1].stop], blocks)
                before, share = blocks[0].start / len(rows), len(chunk.rows) / len(rows)
                chunk.run(
                    collected, lambda n, words: report(int(before * steps + n * share), words)
                )

            in_chunks(
                len(rows),
                self.chunk_rows or self._rows_at_once(),
                work,
                lambda n: report(steps * n // len(rows), ""),
                block_rows=rows_of_a_block(rows.device, self._numbers),
                halved=self._halved,
            )
        return collected.draws(self)

    def saved(self, blocks: list[Block]) -> Path | None:
        """Return where the run of some blocks is saved, if it is."""
        if self.checkpoint is None:
            return None
        return self.checkpoint / f"rows-{blocks[0].start}-{blocks[-1].stop}.safetensors"

    def _halved(self, blocks: list[Block]) -> bool:
        """Whether a run that was stopped had gone over to halves of a chunk, for want of memory."""
        whole = self.saved(blocks)
        if whole is None or whole.exists():
            return False
        half = blocks[: len(blocks) // 2]
        own = self.saved(half)
        return (own is not None and own.exists()) or (len(half) > 1 and self._halved(half))

    @property
    def _numbers(self) -> int:
        """How many numbers a row takes."""
        entries = self.conditional.data.values[0].numel()
        return self.method.footprint(entries, self.conditional.width, self.chains)

    def _rows_at_once(self) -> int:
        repeatable = self.checkpoint is not None
        return rows_at_once(self._numbers, self.conditional.data.values, repeatable=repeatable)

    def identity(self) -> Mapping[str, str]:
        """What makes this run this run."""
        conditional = self.conditional
        return {
            "flow": described(conditional.flow),
            "data": fingerprint(*_present(conditional.data)),
            "context": "" if conditional.context is None else fingerprint(conditional.context),
            "schedule": described(self.schedule),
            "chains": str(self.chains),
            "method": described(self.method),
            "warmup": str(self.warmup),
            "start": described(self.start),
            "seed": str(self.seed),
            # Random numbers are a device's own.
            "device": conditional.data.values.device.type,
        }


def _present(data: Incomplete) -> list[Tensor]:
    return [part for part in (data.values, data.observed, data.noise) if part is not None]


@dataclass(frozen=True)
class _Chunk:
    """Some rows of a plan, all their chains in one batch, the chains of a row side by side."""

    plan: Plan
    rows: Tensor
    blocks: list[Block]

    def run(self, collected: _Collected, report: Progress) -> None:
        """Run the chains of these rows."""
        plan = self.plan
        batch = plan.conditional.batch(self.rows, plan.chains)
        # Which may take longer than all steps, and is not counted among them.
        report(0, "tuning")
        compiled = isinstance(batch.flow, Compiled)
        if self.rows.is_cuda:
            batch = batch._replace(flow=Captured(batch.flow))
        with torch.no_grad():
            kernel, state, passes = self._begin(batch)
        checkpoint = self._checkpoint()
        stepper = stepper_of(kernel, state, compiled=compiled)
        acceptance = Acceptance(plan.schedule, batch.data.values)
        completions = Completions(plan.schedule, batch.data.values)
        try:
            run(
                stepper,
                state,
                self._streams("steps"),
                plan.schedule.steps,
                recorders=(completions, acceptance),
                checkpoint=checkpoint,
                on_step=lambda done, info: report(done, ""),
            )
        except (RuntimeError, MemoryError) as error:
            if checkpoint is not None and memory_ran_out(error) and len(self.blocks) > 1:
                # Halves of these rows begin anew, and save themselves under names of their own.
                checkpoint.path.unlink(missing_ok=True)
            raise
        acceptance.passes += passes
        acceptance.warmup_passes += passes
        collected.take(self.rows, completions.values, acceptance, exact=kernel.exact)

    def _checkpoint(self) -> Checkpoint | None:
        path = self.plan.saved(self.blocks)
        if path is None:
            return None
        return Checkpoint(path, self.plan.identity(), self.plan.checkpoint_every)

    def _begin(self, batch: Batch) -> Begun:
        plan, shape = self.plan, tuple(self.plan.conditional.data.values.shape)
        start = start_of(plan.start, self.rows, plan.chains, shape)
        try:
            y = start(batch.flow, batch.data, self._streams("start"))
            return plan.method.begin(batch, y, plan.warmup, self._streams("warmup"))
        except NonFiniteStart as error:
            raise without_density(self._named(error.places)) from error
        except NothingSeen as error:
            raise DataError(f"{self._named(error.places)}: {error}") from error

    def _named(self, places: list[int]) -> str:
        """Name the rows of some places of the batch."""
        return named_rows(int(self.rows[place // self.plan.chains]) for place in places)

    def _streams(self, purpose: str) -> Streams:
        plan, device = self.plan, self.rows.device
        return Streams.of_blocks(plan.seed, purpose, self.blocks, chains=plan.chains, device=device)


@dataclass
class _Collected:
    """The chunks' results, put in their places of the whole."""

    values: NDArray[np.floating]
    acceptance: NDArray[np.float64]
    passes: int = 0
    warmup_passes: int = 0
    exact: bool = True

    @classmethod
    def empty(cls, plan: Plan) -> _Collected:
        values = plan.conditional.values
        shape = (plan.chains, plan.schedule.draws, *values.shape)
        acceptance = np.full((plan.chains, len(values)), np.nan)
        # Chains fill the holes, and `draws` all else.
        return cls(np.empty(shape, values.dtype), acceptance)

    def take(self, rows: Tensor, values: Tensor, counted: Acceptance, *, exact: bool) -> None:
        chains, where = len(self.acceptance), rows.cpu().numpy()
        by_chain = values.unflatten(1, (len(rows), chains)).movedim(2, 0)
        self.values[:, :, where] = by_chain.numpy()
        self.acceptance[:, where] = counted.rate.cpu().reshape(len(rows), chains).T.numpy()
        self.passes = max(self.passes, counted.passes)
        self.warmup_passes = max(self.warmup_passes, counted.warmup_passes)
        self.exact = exact

    def draws(self, plan: Plan) -> Draws:
        conditional = plan.conditional
        observed = conditional.data.observed.cpu().numpy()
        # The caller's own numbers, not the flow's rounding of them.
        np.copyto(self.values, conditional.values, where=observed)
        return Draws(
            self.values,
            observed,
            self.acceptance,
            self.passes,
            self.warmup_passes,
            self.exact,
            plan.method_name,
            plan.seed,
        )
