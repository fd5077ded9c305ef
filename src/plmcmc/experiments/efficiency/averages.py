"""The average of many chains, followed as they go (6.3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.chains import Replayed, Start, progress_bar
from plmcmc.flows import Captured, while_sampling
from plmcmc.posterior import Conditional, Method
from plmcmc.posterior.conditional import problem_in
from plmcmc.rng import Streams


class Averages(NamedTuple):
    """What chains say together, at some moments.

    Attributes:
        proposals: of each chain by then.
        passes: flow passes of each chain by then, a warm-up included.
        means: `(moments, entries)`, over the chains' completions at that moment.
        acceptance: share of the proposals since the moment before that were accepted; NaN at the
            first, before any.
    """

    proposals: NDArray[np.int64]
    passes: NDArray[np.int64]
    means: NDArray[np.float64]
    acceptance: NDArray[np.float64]


def follow(
    conditional: Conditional,
    method: Method,
    *,
    chains: int,
    passes: int,
    moments: int,
    start: Start,
    seed: int,
    warmup: int | None = None,
    least: int = 0,
    progress: bool | None = None,
) -> Averages:
    """Run chains of one row until the next step would go beyond so many passes.

    Args:
        conditional: of one row.
        method: what chains walk by.
        chains: how many.
        passes: of each chain, those of a warm-up included.
        moments: about how many moments to keep, evenly spaced in passes.
        start: where chains begin.
        seed: of all random numbers.
        warmup: steps to tune for; None leaves it to the method.
        least: proposals to make, even if they take more passes.
        progress: show a bar; None does on a terminal.
    """
    row = torch.zeros(1, dtype=torch.long, device=conditional.data.values.device)
    batch = problem_in(conditional).batch(row, chains)
    if row.is_cuda:
        batch = batch._replace(flow=Captured(batch.flow))

    def streams(purpose: str) -> Streams:
        return Streams.of_rows(seed, purpose, 1, chains=chains, device=row.device)

    with (
        torch.no_grad(),
        while_sampling(),
        progress_bar(f"Running {chains} chains", passes, show=progress) as report,
    ):
        y = start(batch.flow, batch.data, streams("start"))
        kernel, state, spent = method.begin(batch, y, warmup, streams("warmup"))
        stepper = Replayed(kernel) if row.is_cuda else kernel
        kept = _Kept(passes / moments, chains, state.completion)
        kept.keep(0, spent, state.completion)
        steps, numbers, last = 0, streams("steps"), 0
        while spent + last <= passes or steps < least:
            state, info = stepper.step(state, numbers)
            # What the next step will cost, too.
            last = info.passes
            steps, spent = steps + 1, spent + last
            kept.count(info.accepted)
            if kept.due(spent):
                kept.keep(steps, spent, state.completion)
            report(min(spent, passes), f"{steps} proposals")
        if steps > kept.lines[-1][0]:
            kept.keep(steps, spent, state.completion)
    return kept.averages()


class _Kept:
    """Moments far enough from one another, and what was accepted between them."""

    def __init__(self, every: float, chains: int, like: Tensor) -> None:
        self.every, self.chains = every, chains
        self.lines: list[tuple[int, int, float]] = []
        self.means: list[NDArray[np.float64]] = []
        self.accepted = torch.zeros((), dtype=torch.float64, device=like.device)

    def count(self, accepted: Tensor) -> None:
        # On the device: nothing waits for it until a moment is kept.
        self.accepted += accepted.sum()

    def due(self, passes: int) -> bool:
        return passes - self.lines[-1][1] >= self.every

    def keep(self, steps: int, passes: int, rows: Tensor) -> None:
        before = self.lines[-1][0] if self.lines else steps
        tried = (steps - before) * self.chains
        self.lines.append((steps, passes, float(self.accepted) / tried if tried else np.nan))
        self.means.append(rows.double().mean(0).cpu().numpy())
        self.accepted.zero_()

    def averages(self) -> Averages:
        steps, passes, shares = (np.array(part) for part in zip(*self.lines, strict=True))
        return Averages(steps, passes, np.stack(self.means), shares)
