"""Where chains begin: full rows in data space, which every kernel can take in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from plmcmc.data import DataError, Incomplete
from plmcmc.data.images import channel_axis
from plmcmc.flows import Flow, choose_rows, log_prob
from plmcmc.flows.protocol import cooled, tempered
from plmcmc.rng import Streams

# How often places without density are drawn again: of 1,000 places whose samples have one in
# 2% of all cases, 2 stay without.
REDRAWN = 300


class Start(Protocol):
    """Returns full rows `(rows * chains, *event)`, the chains of a row side by side."""

    def __call__(self, flow: Flow, data: Incomplete, streams: Streams) -> Tensor:
        """Return one full row for every place of the batch `data`."""
        ...


@dataclass(frozen=True)
class Unconditional:
    """Samples of the flow at a temperature; below 1, the paper's "reduced variance".

    Samples that are not finite are redrawn at half the temperature. Those that have no density
    with the observed values put in, as happens where the latents are bounded, are redrawn as they
    were: nothing else could tell a chain where to go from there.

    Args:
        temperature: factor applied to the latents.
        projected: insert the observed values, so that a latent chain starts at `y_O = x_O`. The
            paper does not: its chains start at the sample itself and must first find `x_O`.
    """

    temperature: float = 1.0
    projected: bool = True

    def __call__(self, flow: Flow, data: Incomplete, streams: Streams) -> Tensor:
        """Sample the flow."""

        def draw(temperature: float) -> Tensor:
            # Latents by blocks, all decoded at once: a flow with contexts knows its rows by place.
            latents = streams.draw(lambda n, source: tempered(flow, n, source, temperature))
            return flow.to_data(latents)[0]

        y = cooled(draw, self.temperature)
        if not self.projected:
            return y
        y = data.near_readings(y)
        lost = _without_density(flow, y)
        for _ in range(REDRAWN):
            if not bool(lost.any()):
                break
            again = data.near_readings(cooled(draw, self.temperature))
            y = choose_rows(lost, again, y)
            lost = lost & _without_density(flow, y)
        return y


def _without_density(flow: Flow, y: Tensor) -> Tensor:
    return ~torch.isfinite(log_prob(flow, y))


class NothingSeen(DataError):
    """A start needs something seen, and a row has nothing.

    Attributes:
        places: the places in the batch.
    """

    def __init__(self, places: list[int]) -> None:
        self.places = places
        super().__init__(
            "FromObserved copies observed values, but a row has none: start from Unconditional()"
        )


@dataclass(frozen=True)
class FromObserved:
    """Fills missing entries with random observed values of the same row: the paper's CIFAR start.

    In images with channels, first or last, whole pixels are copied, all channels together.
    """

    def __call__(self, flow: Flow, data: Incomplete, streams: Streams) -> Tensor:
        """Copy observed values at random."""
        del flow
        first, whole = _channels_first(data.values), data.values.shape
        values = first.flatten(2)
        seen = _channels_first(data.observed).flatten(2).all(1)
        empty = ~seen.any(1)
        if bool(empty.any()):
            raise NothingSeen(empty.nonzero().flatten().tolist())
        # Seen places first: the n-th of them for a uniform n costs one number a hole.
        order = (~seen).to(torch.uint8).argsort(dim=1, stable=True)
        uniform = streams.uniform(torch.empty_like(seen, dtype=torch.float64))
        nth = (uniform * seen.sum(1, keepdim=True)).long()
        source = order.gather(1, nth)[:, None].expand_as(values)
        filled = values.gather(2, source).reshape(first.shape)
        axis = channel_axis(whole)
        return data.near_readings(filled.movedim(1, axis) if axis else filled.reshape(whole))


def _channels_first(x: Tensor) -> Tensor:
    """Return images with their channels first; other rows as if they had one."""
    axis = channel_axis(x.shape)
    return x[:, None].flatten(2) if axis is None else x.movedim(axis, 1)


@dataclass(frozen=True)
class Given:
    """Given completions: `(rows, *event)`, or one per chain `(chains, rows, *event)`.

    Their observed entries are ignored in data space, and replaced for kernels in latent space.
    """

    completion: Tensor

    def __post_init__(self) -> None:
        """Take in arrays of any library."""
        object.__setattr__(self, "completion", torch.as_tensor(self.completion))

    def select(self, rows: Tensor, chains: int, shape: tuple[int, ...]) -> Given:
        """Return the batch of some rows of a data set of this shape, each `chains` times."""
        full, event = self.completion, shape[1:]
        if full.shape[-len(event) :] != event or full.ndim - len(event) not in (1, 2):
            raise DataError(
                f"a given start must have shape (rows, *event) or (chains, rows, *event) with "
                f"event {event}; got {tuple(full.shape)}"
            )
        per_chain = full.ndim == len(event) + 2
        if per_chain and len(full) != chains:
            raise DataError(f"a start for {len(full)} chains was given, but {chains} are to run")
        stacked = full if per_chain else full.expand(chains, *full.shape)
        if stacked.shape[1] != shape[0]:
            raise DataError(
                f"a given start must have a row for every row of x, {shape[0]} in all; got "
                f"{stacked.shape[1]} rows"
            )
        return Given(stacked[:, rows.to(full.device)].transpose(0, 1).flatten(0, 1))

    def __call__(self, flow: Flow, data: Incomplete, streams: Streams) -> Tensor:
        """Return the completion with the observed values put in."""
        del streams
        full = self.completion.to(data.values)
        if full.shape != data.values.shape:
            raise DataError(
                f"a given start must have shape {tuple(data.values.shape)}; got {tuple(full.shape)}"
            )
        projected = data.project(full)
        if not bool(torch.isfinite(projected).all()):
            raise DataError(
                "a given start must be finite at missing entries; it has NaN or infinity"
            )
        return projected


def start_of(start: Start, rows: Tensor, chains: int, shape: tuple[int, ...]) -> Start:
    """Return the start for some rows of a data set of this shape, each `chains` times."""
    return start.select(rows, chains, shape) if isinstance(start, Given) else start
