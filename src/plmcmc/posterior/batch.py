"""What a method gets to work on, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from plmcmc.adaptation import Survey, survey
from plmcmc.data import Incomplete
from plmcmc.flows import Flow, finite_rows, home, sample
from plmcmc.kernels import Kernel, State
from plmcmc.rng import Streams

# Contexts of a flow are as many as its rows: this few a chunk always has, or all there are.
PROBE_ROWS = 64
SAMPLES = 4096


@dataclass(frozen=True, eq=False)
class Probe:
    """The flow of the data set's first rows, the same for every chunk: to ask it about itself.

    Attributes:
        flow: the flow.
        rows: how many rows it takes.
        shared: whether it is the flow of all rows, rather than of these rows' contexts.
    """

    flow: Flow
    rows: int
    shared: bool

    @cached_property
    def samples(self) -> Tensor:
        """About 4,096 unconditional samples, always the same, all finite."""
        source = self._generator()
        times = max(1, SAMPLES // self.rows)
        found = torch.cat([sample(self.flow, self.rows, source) for _ in range(times)])
        return found[finite_rows(found)]

    @cached_property
    def survey(self) -> Survey:
        """What the pullback sampler needs to know of the flow, found once."""
        return survey(self.flow, self.rows, self._generator())

    def _generator(self) -> Generator:
        return Generator(home(self.flow).device).manual_seed(0)


class Batch(NamedTuple):
    """Some rows, each `chains` times side by side.

    Attributes:
        flow: the flow of these places.
        data: what is seen at them.
        chains: places per row.
        most_holes: most holes that a row of the whole data set has.
        width: what rows' holes are padded to, at least as many.
        probe: the flow of the data set's first rows.
    """

    flow: Flow
    data: Incomplete
    chains: int
    most_holes: int
    width: int
    probe: Probe

    def by_place(self, numbers: Tensor) -> Tensor:
        """Return numbers of the rows, one for each place."""
        return numbers.repeat_interleave(self.chains)


class Begun(NamedTuple):
    """A kernel, states to step from, and the passes per chain that they cost."""

    kernel: Kernel
    state: State
    passes: int


class Method(Protocol):
    """A configured sampling method; a frozen dataclass, so that its repr identifies a run."""

    gradient: ClassVar[bool]
    """Whether its chains need the flow's derivatives."""

    def footprint(self, entries: int, holes: int, chains: int) -> int:
        """Return roughly the most values held in memory for a row of so many entries."""
        ...

    def burn_in(self, warmup: int | None, kept: int) -> int:
        """Return the number of steps after `begin` and before the first kept one."""
        ...

    def begin(self, batch: Batch, y: Tensor, warmup: int | None, streams: Streams) -> Begun:
        """Return a kernel for the batch, tuned if necessary, and its states at the rows `y`."""
        ...
