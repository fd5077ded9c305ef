"""The paper's target: a density over latents whose completions follow p(x_M | x_O)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from plmcmc.data import Incomplete
from plmcmc.flows import Flow, log_prob
from plmcmc.flows.nice import most_log_prob
from plmcmc.target.auxiliary import Auxiliary
from plmcmc.target.point import Point


class Decoded(NamedTuple):
    """What is known of a position before its completion is encoded.

    Attributes:
        y: the position in data space.
        log_auxiliary: `log q(y_O)`, `(rows,)`, float64.
        log_det: `log |det df/dz|`, `(rows,)`, float64.
    """

    y: Tensor
    log_auxiliary: Tensor
    log_det: Tensor


@dataclass(frozen=True)
class ProjectedLatentTarget:
    """`log q(y_O) + log p(y_M; x_O) + log |det df/dz|` at `y = f(z)` (paper, section 3.1)."""

    flow: Flow
    data: Incomplete
    auxiliary: Auxiliary

    passes: ClassVar[int] = 2

    @property
    def free(self) -> None:
        """None: every latent may move."""
        return

    def start(self, y: Tensor) -> Tensor:
        """Return the latents of `y`."""
        return self.flow.to_latent(y)[0]

    def __call__(self, position: Tensor) -> Point:
        """Decode, project, encode: two passes, and the completion falls out."""
        return self.encode(position, self.decode(position))

    def decode(self, position: Tensor) -> Decoded:
        """Return what the first pass tells."""
        y, log_det = self.flow.to_data(position)
        return Decoded(y, self.auxiliary.log_prob(y, self.data), log_det.double())

    def encode(self, position: Tensor, decoded: Decoded, rows: Tensor | None = None) -> Point:
        """Return the point by a second pass: of all rows, or of some, whose parts these are."""
        data = self.data if rows is None else self.data.select(rows)
        completion = data.project(decoded.y)
        log_density = (
            decoded.log_auxiliary
            + log_prob(self.flow, completion)
            + data.log_likelihood(completion)
            + decoded.log_det
        )
        return Point(position, completion, log_density)

    def most(self) -> Tensor | None:
        """Return what the second pass adds to a log-density at most; None if that is not known."""
        return most_log_prob(self.flow) if self.data.noise is None else None
