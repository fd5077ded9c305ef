"""The conditional density itself, over the holes of a row: one pass, no auxiliary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc.data import Incomplete
from plmcmc.flows import Flow, row_sum
from plmcmc.target.point import Point
from plmcmc.target.warp import Warp


@dataclass(frozen=True)
class ConditionalTarget:
    """`log p(y_M; x_O)`: positions are full rows, of which only missing entries move.

    Args:
        flow: the flow.
        data: the observed values.
        warp: coordinates of the entries; None leaves them as they are. The density is then that of
            the coordinates, so that completions are distributed as before.
    """

    flow: Flow
    data: Incomplete
    warp: Warp | None = None

    passes: ClassVar[int] = 1

    @property
    def free(self) -> Tensor:
        """True at missing entries."""
        return ~self.data.observed

    def start(self, y: Tensor) -> Tensor:
        """Return the position of `y` with the observed values inserted."""
        completion = self.data.project(y)
        return completion if self.warp is None else self.warp.inward(completion)

    def __call__(self, position: Tensor) -> Point:
        """Put the observed values in and encode."""
        completion, log_slope = self._complete(position)
        z, log_det = self.flow.to_latent(completion)
        log_density = self.flow.latent_log_prob(z).double() + log_det.double() + log_slope
        log_density = log_density + self.data.log_likelihood(completion)
        return Point(completion if self.warp is None else position, completion, log_density)

    def whitened(self, position: Tensor, information: Tensor) -> Tensor:
        """Return numbers `(rows, *)` whose squares, halved, sum to about minus the log-density.

        The latents, by the root of their Fisher information, and the readings' errors in units of
        their deviation.
        """
        completion = self._complete(position)[0]
        z = self.flow.to_latent(completion)[0].flatten(1)
        z = z * information.sqrt().to(z.dtype)
        if self.data.noise is None:
            return z
        return torch.cat([z, self.data.errors(completion).flatten(1)], 1)

    def _complete(self, position: Tensor) -> tuple[Tensor, Tensor | float]:
        if self.warp is None:
            return self.data.project(position), 0.0
        y, log_slope = self.warp.outward(position)
        terms = torch.where(self.free, log_slope, 0.0)
        return self.data.project(y), row_sum(terms)
