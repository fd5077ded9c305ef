"""The paper's comparison in data space: one missing entry at a time, from a fixed normal."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plmcmc.flows import row_sum
from plmcmc.rng import Streams


@dataclass(frozen=True)
class OneCoordinate:
    """Redraw one missing entry i of each row, picked at random, from `N(mean_i, scale_i^2)`.

    With `Metropolis` on the `ConditionalTarget` this is the "per-missing-pixel Gibbs sampling" of
    the paper's appendix E.3: one pass a proposal.

    Attributes:
        mean: each entry's mean over the training data, flat.
        scale: its standard deviation, flat.
        places: `(rows, entries)`, the flat places of each row's holes, first.
        counts: `(rows,)`, how many holes each row has.
    """

    mean: Tensor
    scale: Tensor
    places: Tensor
    counts: Tensor

    @classmethod
    def of(cls, mean: Tensor, scale: Tensor, free: Tensor) -> OneCoordinate:
        """List each row's holes once, so that a step picks one by a lookup.

        Args:
            mean: `(*event)`.
            scale: `(*event)`, positive.
            free: bool `(rows, *event)`, True at the holes.
        """
        if not bool((scale > 0).all()):
            raise ValueError(
                "scale must be positive everywhere: set a lower bound for constant entries"
            )
        flat = free.flatten(1)
        # Stable sort: the holes' places come first, in order.
        places = (~flat).to(torch.uint8).argsort(dim=1, stable=True)
        return cls(mean.flatten(), scale.flatten(), places, flat.sum(1))

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return the position with one entry redrawn; rows without holes come back as they are."""
        uniform = streams.uniform(torch.empty_like(self.counts, dtype=torch.float64))
        place = self.places.gather(1, (uniform * self.counts).long()[:, None])
        mean, scale = self.mean[place], self.scale[place]
        flat = position.flatten(1)
        old = flat.gather(1, place)
        new = torch.where(self.counts[:, None] > 0, mean + scale * streams.normal(old), old)
        correction = 0.5 * row_sum(
            ((new - mean) / scale).square() - ((old - mean) / scale).square()
        )
        return flat.scatter(1, place, new).reshape(position.shape), correction
