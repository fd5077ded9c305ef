"""What a method gets to work on, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from plmcmc.data import Incomplete
from plmcmc.flows import Flow, sample
from plmcmc.kernels import Kernel, State
from plmcmc.rng import Streams

# Contexts of a flow are as many as its rows: this few a chunk always has, or all there are.
REFERENCE_ROWS = 64


class Reference(NamedTuple):
    """The flow of the data set's first rows, the same for every chunk: to ask it about itself."""

    flow: Flow
    rows: int

    def samples(self, count: int = 4096) -> Tensor:
        """Return about `count` unconditional samples, always the same."""
        return torch.cat([sample(self.flow, self.rows, g) for g in self.generators(count)])

    def generators(self, count: int) -> list[Generator]:
        """Return one generator for each time that `rows` rows make `count` in all."""
        device = self.flow.latent_sample(self.rows, Generator()).device
        times = max(1, count // self.rows)
        return [Generator(device).manual_seed(seed) for seed in range(times)]


class Batch(NamedTuple):
    """Some rows, each `chains` times side by side.

    Attributes:
        flow: the flow of these places.
        data: what is seen at them.
        chains: places per row.
        widest: most holes that a row of the whole data set has.
        reference: the flow of the data set's first rows.
    """

    flow: Flow
    data: Incomplete
    chains: int
    widest: int
    reference: Reference


class Begun(NamedTuple):
    """A kernel, states to step from, and the passes per chain that they cost."""

    kernel: Kernel
    state: State
    passes: int


class Method(Protocol):
    """A configured way to sample; a frozen dataclass, so that its repr names the run."""

    def burn_in(self, warmup: int | None, kept: int) -> int:
        """Return how many steps to take after `begin` and before the first that is kept."""
        ...

    def begin(self, batch: Batch, y: Tensor, warmup: int | None, streams: Streams) -> Begun:
        """Return a kernel for the batch, tuned if it must be, and its states from full rows `y`."""
        ...
