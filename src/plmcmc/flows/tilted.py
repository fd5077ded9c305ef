"""A flow whose data are tilted: shifted and sheared by a Gaussian's moments, place by place."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from plmcmc.flows.protocol import Flow


class Tilted(nn.Module):
    """`flow` after `x -> centre + L K^-1 (x - mean)`: from one Gaussian's moments to another's.

    The rows of a batch are assigned to the tilts in turn.

    Args:
        flow: of data whose moments are `centre` and `L L^T`.
        centre: `(columns,)`.
        covariance: `L L^T`.
        means: `(tilts, columns)`, of the tilted data.
        covariances: `(tilts, columns, columns)`, `K K^T`.
    """

    def __init__(
        self, flow: Flow, centre: Tensor, covariance: Tensor, means: Tensor, covariances: Tensor
    ) -> None:
        super().__init__()
        self.flow = flow
        wide, own = torch.linalg.cholesky(covariances), torch.linalg.cholesky(covariance)
        # Solved from the right: L K^-1 with the same L for all.
        inward = torch.linalg.solve_triangular(wide, own.expand_as(wide), upper=False, left=False)
        diagonals = (m.diagonal(dim1=-2, dim2=-1).log().sum(-1) for m in (own, wide))
        self.centre: Tensor
        self.means: Tensor
        self.inward: Tensor
        self.log_dets: Tensor
        self.register_buffer("centre", centre)
        self.register_buffer("means", means)
        self.register_buffer("inward", inward)
        self.register_buffer("log_dets", next(diagonals) - next(diagonals))

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents and `log |det dz/dx|`."""
        off = x.reshape(-1, *self.means.shape) - self.means.to(x)
        y = self.centre.to(x) + (self.inward.to(x) @ off[..., None])[..., 0]
        z, log_det = self.flow.to_latent(y.reshape(x.shape))
        return z, log_det + self.log_dets.repeat(len(off))

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and `log |det dx/dz|`."""
        y, log_det = self.flow.to_data(z)
        off = y.reshape(-1, *self.means.shape) - self.centre.to(y)
        matrix = self.inward.to(y).expand(len(off), -1, -1, -1)
        x = self.means.to(y) + torch.linalg.solve(matrix, off[..., None])[..., 0]
        return x.reshape(y.shape), log_det - self.log_dets.repeat(len(off))

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the flow's own."""
        return self.flow.latent_log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return the flow's own."""
        return self.flow.latent_sample(rows, generator)
