"""The paper's target: a density over latents whose completions follow p(x_M | x_O)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from plmcmc.data import Incomplete
from plmcmc.flows import Flow, log_prob
from plmcmc.target.auxiliary import Auxiliary
from plmcmc.target.point import Point


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
        y, log_det = self.flow.to_data(position)
        completion = self.data.project(y)
        log_density = (
            self.auxiliary.log_prob(y, self.data)
            + log_prob(self.flow, completion)
            + self.data.log_likelihood(completion)
            + log_det.double()
        )
        return Point(position, completion, log_density)
