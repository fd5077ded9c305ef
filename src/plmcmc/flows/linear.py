"""A linear flow: with normal latents, a Gaussian whose conditionals are known in closed form."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plmcmc.flows.base import LatentFlow, total


class Linear(LatentFlow):
    """`x = shift + A z`, with `A` lower triangular and a positive diagonal.

    Args:
        features: number of columns.
        latent: `"normal"` or `"logistic"`.

    Example:
        >>> flow = Linear.of_moments(torch.zeros(2), torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
        >>> x, log_det = flow.to_data(torch.tensor([[1.0, 1.0]]))
        >>> x.tolist(), round(log_det.item(), 4)
        ([[2.0, 2.0]], 0.6931)
    """

    name = "linear"

    def __init__(self, features: int, latent: str = "normal") -> None:
        super().__init__(features, latent)
        self.shift = nn.Parameter(torch.zeros(features))
        self.log_diagonal = nn.Parameter(torch.zeros(features))
        self.lower = nn.Parameter(torch.zeros(features, features))

    @classmethod
    def of_moments(cls, mean: Tensor, covariance: Tensor) -> Linear:
        """Return a Gaussian with this mean and covariance, as a flow."""
        flow = cls(len(mean)).to(covariance)
        factor = torch.linalg.cholesky(covariance)
        with torch.no_grad():
            flow.shift.copy_(mean)
            flow.log_diagonal.copy_(factor.diagonal().log())
            flow.lower.copy_(factor.tril(-1))
        return flow

    def factor(self) -> Tensor:
        """Return `A`."""
        return self.lower.tril(-1) + self.log_diagonal.exp().diag()

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `A^-1 (x - shift)` and minus the log-determinant of `A`."""
        eye = torch.eye(self.features, dtype=x.dtype, device=x.device)
        # Not a solve with x on the right: its last bit depends on how many rows there are.
        inverse = torch.linalg.solve_triangular(self.factor(), eye, upper=False)
        return (x - self.shift) @ inverse.T, -total(self.log_diagonal).expand(len(x))

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `shift + A z` and the log-determinant of `A`."""
        return self.shift + z @ self.factor().T, total(self.log_diagonal).expand(len(z))
