"""Warm-up of the pullback sampler: climb, metric, step sizes, windows; then all is frozen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from plmcmc.adaptation.climb import SETTLING_STEPS, climb, settled
from plmcmc.adaptation.metric import (
    Whitened,
    frame_of_covariance,
    frame_of_precision,
    pullback,
    pullback_of_one,
    widened,
)
from plmcmc.adaptation.pool import MOST, Pool
from plmcmc.adaptation.scouts import scouted
from plmcmc.adaptation.step_size import Stepped, tune
from plmcmc.adaptation.trajectory_length import Memory, further
from plmcmc.kernels import (
    Cycle,
    Frame,
    GradientState,
    Hamiltonian,
    Holes,
    Hop,
    Jump,
    Kernel,
    Leaps,
)
from plmcmc.kernels.base import finite_start
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget

# Beyond the largest angle a turn goes so far round that more gains nothing.
FIRST_STEP, LARGEST_STEP = 0.3, 1.4
# What a draw is worth, next to its neighbours on the chain.
INDEPENDENT = 0.5
# A hop costs little next to a trajectory, and is seldom accepted.
HOPS = 3


class Tuned(NamedTuple):
    """A kernel that will not change any more, states to go on from, and what they cost."""

    kernel: Kernel
    state: GradientState
    passes: int


@dataclass(frozen=True)
class Warmup:
    """How to tune.

    Args:
        climb_steps: gradient steps of each chain from its start to a mode.
        windows: trajectories per window; each begins with a new metric.
        stretches: trajectories per further window; each begins by widening the last frame along
            the directions in which the draws spread further than the metric says.
        way: share of the way, on a logarithmic scale, that frames are widened. Half is best for
            chains; the whole way makes the frame's Gaussian cover the draws.
        acceptance: mean acceptance probability that step sizes aim at.
        trajectory: angle that a trajectory turns through; a quarter turn forgets a Gaussian. Draws
            go further where the last window's still resembled the ones before (see `further`).
        jitter: share that steps vary by from one trajectory to the next. Where draws go further,
            some go as far as they would, and none is shorter.
        most_turns: longest trajectory allowed, in turns.
        most_pooled: holes up to which the metric is averaged over a row's chains; of more it is
            taken at one of them, and the chains share the work.
        jumps: mix in jumps across the region that a row's chains have found, and hops between the
            modes that scouts have.
        widening: how much wider than the chains' spread jumps are drawn.
    """

    climb_steps: int = 100
    windows: tuple[int, ...] = (10, 15)
    stretches: tuple[int, ...] = (15, 20)
    way: float = 0.5
    acceptance: float = 0.65
    trajectory: float = 2.2
    jitter: float = 0.2
    most_turns: int = 64
    most_pooled: int = 1024
    jumps: bool = True
    widening: float = 1.3

    def lasting(self, trajectories: int) -> Warmup:
        """Return the same with its windows made to last so many trajectories in all."""
        share = trajectories / sum(self.windows + self.stretches)
        windows, stretches = (
            tuple(max(1, round(share * length)) for length in lengths)
            for lengths in (self.windows, self.stretches)
        )
        return replace(self, windows=windows, stretches=stretches)

    def run(
        self,
        target: ConditionalTarget,
        y: Tensor,
        holes: Holes,
        information: Tensor,
        streams: Streams,
        places: Iterable[Tensor] | None = None,
    ) -> Tuned:
        """Tune a kernel for a batch that starts at full rows `y`.

        Args:
            target: the conditional density; in warped coordinates, whose unit a climb steps in.
            y: full rows in data space.
            holes: where they move.
            information: Fisher information of the latent coordinates.
            streams: random numbers.
            places: full rows to scout from for other modes, batch by batch; without them, jumps
                know only what chains have found.
        """
        if not self.windows or min(self.windows + self.stretches) < 1:
            raise ValueError(f"a warm-up needs windows of at least one trajectory each; got {self}")
        if not (self.trajectory > 0 and 0 <= self.jitter < 1 and self.most_turns >= 1):
            raise ValueError(
                f"a trajectory must be above 0, jitter from 0 to below 1, most_turns at least 1; "
                f"got {self}"
            )
        state = finite_start(climb(target, y, steps=self.climb_steps))
        spent = 3 * (self.climb_steps + 1)
        whitened = partial(target.whitened, information=information)
        hops: tuple[Hop, ...] = ()
        if self.jumps and places is not None:
            hop, cost = scouted(target, places, holes, whitened)
            hops = (hop,) * HOPS
            spent += cost
        pool = Pool.of(holes.gather(state.position))
        steps = torch.full((len(holes.places),), FIRST_STEP, dtype=torch.float64, device=y.device)
        frame = narrow = memory = None
        for index, length in enumerate(self.windows + self.stretches):
            if frame is None or index < len(self.windows):
                precision, products = self._metric(whitened, state.position, holes)
                frame = narrow = frame_of_precision(precision, pool.mean.to(y.dtype), holes)
                spent += products
                if index == 0:
                    state, spent = settled(target, state, frame), spent + 3 * SETTLING_STEPS
                    frame = narrow = replace(frame, centre=holes.gather(state.position).mean(1))
            else:
                worth = pool.draws * INDEPENDENT
                frame = widened(frame, pool.offsets, pool.mean, worth, way=self.way)
            kernel = self._kernel(target, frame, steps, streams)
            (state, steps, passes), pool, memory = self._window(
                kernel, hops if index else (), state, length, streams
            )
            spent += passes
        assert frame is not None
        assert narrow is not None
        kernel = self._kernel(target, frame, steps, streams, memory)
        if not self.jumps:
            return Tuned(kernel, state, spent)
        leaps = Leaps(target, (self._jump(narrow, pool), *hops))
        return Tuned(Cycle((kernel, leaps)), state, spent)

    def points(self, holes: int, chains: int) -> int:
        """Return at how many of a row's chains its metric is taken."""
        return chains if holes <= self.most_pooled else 1

    def _metric(self, whitened: Whitened, y: Tensor, holes: Holes) -> tuple[Tensor, int]:
        """Return the metric of each row, and the forward-mode products of a chain."""
        rows, width = holes.places.shape
        chains = len(y) // rows
        if self.points(width, chains) == 1:
            return pullback_of_one(whitened, y, holes), -(-width // chains)
        return pullback(whitened, y, holes), holes.most

    def _window(
        self,
        kernel: Hamiltonian,
        hops: tuple[Hop, ...],
        state: GradientState,
        length: int,
        streams: Streams,
    ) -> tuple[Stepped, Pool, Memory]:
        """Run one window; pool its second half."""
        pool: Pool | None = None
        leaps = (Leaps(kernel.target, hops),) if hops else ()
        memory = Memory.of(kernel.frame.gather(state.position))

        def watch(step: int, state: GradientState) -> None:
            nonlocal pool, memory
            values = kernel.frame.gather(state.position)
            memory = memory.add(values)
            if step >= length // 2:
                pool = Pool.of(values) if pool is None else pool.add(Pool.of(values))

        stepped = tune(
            lambda steps: Cycle((replace(kernel, step_size=steps), *leaps)),
            state,
            kernel.step_size,
            streams,
            wanted=self.acceptance,
            largest=LARGEST_STEP,
            length=length,
            watch=watch,
        )
        assert pool is not None
        return stepped, pool, memory

    def _kernel(
        self,
        target: ConditionalTarget,
        frame: Frame,
        steps: Tensor,
        streams: Streams,
        memory: Memory | None = None,
    ) -> Hamiltonian:
        """Return trajectories of one number of turns per block: the batch waits for the longest.

        By block, since a block's draws must not depend on which others share its batch.
        """
        sizes = torch.tensor(streams.sizes, device=steps.device) * len(steps) // streams.rows
        parts = sizes.tolist()
        times = [1.0] * len(parts)
        if memory is not None:
            times = [further(own) for own in memory.correlation.split(parts)]
        far = torch.tensor(times, dtype=steps.dtype, device=steps.device)
        angle = self.trajectory * far
        middle = torch.stack([part.median() for part in steps.split(parts)])
        turns = (angle / middle).ceil().long().clamp(1, self.most_turns)
        angle, far, turns = (part.repeat_interleave(sizes) for part in (angle, far, turns))
        # Rows that could step further than is wanted do not: half a turn would mirror them.
        steps = steps.minimum(angle / turns) if memory is not None else steps
        low, high = (1 - self.jitter) / far, 1 + self.jitter
        return Hamiltonian(target, frame, steps, turns, low, high)

    def _jump(self, narrow: Frame, pool: Pool) -> Jump:
        """Return jumps across the region that the row's chains have found, and to their draws."""
        covariance, centre = self.widening**2 * pool.covariance, pool.mean.to(narrow.root.dtype)
        wide = frame_of_covariance(covariance, centre, narrow.holes)
        # A step of many chains is in the pool as a whole: every chain would look at every other.
        centres = pool.values[:, -MOST:].to(narrow.root.dtype)
        width = _width(narrow.holes.present.sum(1), centres.shape[1]).to(narrow.root)[:, None, None]
        narrow = replace(narrow, root=width * narrow.root, inverse=narrow.inverse / width)
        return Jump(wide, narrow, centres)


def _width(holes: Tensor, draws: int) -> Tensor:
    """Return how wide Gaussians around draws are, relative to what was drawn from (Silverman)."""
    return (4 / ((holes + 2) * draws)) ** (1 / (holes + 4))
