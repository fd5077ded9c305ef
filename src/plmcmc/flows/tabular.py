"""A flow for tables: couplings on normal scores, then a triangular layer; several members at once.

It starts at a Gaussian: with its couplings at nothing it is the Gaussian copula of the table.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from plmcmc.flows.base import LatentFlow, seeded, total


class _Networks(nn.Module):
    """One small network for each member, as one batched product."""

    def __init__(self, members: int, widths: list[int]) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for number, (before, after) in enumerate(pairwise(widths), start=2):
            # The last layer near nothing: the flow starts at its triangular layer.
            scale = before**-0.5 * (0.01 if number == len(widths) else 1.0)
            self.weights.append(nn.Parameter(scale * torch.randn(members, before, after)))
            self.biases.append(nn.Parameter(torch.zeros(members, 1, after)))

    def forward(self, x: Tensor) -> Tensor:
        """Return `(members, rows, out)` from `(members, rows, in)`."""
        last = len(self.weights) - 1
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = silu(x) if number < last else x
        return x


class TabularFlow(LatentFlow):
    """Affine couplings with random halves, then `z = W (x - mean)`, normal latents.

    Rows of a batch take turns: the first is the first member's, the second the second's, and so on;
    their number must be a multiple of the members'.

    Args:
        features: number of columns.
        members: independent flows that run side by side.
        couplings: layers of each; every second one moves what the one before kept.
        depth: hidden layers of each network.
        width: their width.
        random_state: seed of halves and weights.
    """

    name = "tabular"

    def __init__(
        self,
        features: int,
        *,
        members: int = 1,
        couplings: int = 4,
        depth: int = 2,
        width: int = 48,
        latent: str = "normal",
        random_state: int | None = None,
    ) -> None:
        super().__init__(features, latent)
        if members < 1:
            raise ValueError(f"members must be at least 1; got {members}")
        self.config |= {"members": members, "couplings": couplings, "depth": depth, "width": width}
        self.members = members
        widths = [features] + [width] * depth + [2 * features]
        with seeded(random_state):
            self.kept: Tensor
            self.register_buffer("kept", _halves(couplings, members, features))
            self.networks = nn.ModuleList(_Networks(members, widths) for _ in range(couplings))
        self.mean = nn.Parameter(torch.zeros(members, 1, features))
        self.lower = nn.Parameter(torch.zeros(members, features, features))
        self.log_diagonal = nn.Parameter(torch.zeros(members, features))

    def start_at(self, mean: Tensor, covariance: Tensor) -> None:
        """Put the triangular layer of every member where a Gaussian has normal latents."""
        factor = torch.linalg.cholesky(covariance.double())
        eye = torch.eye(self.features, dtype=torch.float64, device=factor.device)
        inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
        with torch.no_grad():
            self.mean.copy_(mean.expand_as(self.mean))
            self.lower.copy_(inverse.tril(-1).expand_as(self.lower))
            self.log_diagonal.copy_(inverse.diagonal().log().expand_as(self.log_diagonal))

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents and `log |det dz/dx|`, `(rows,)`."""
        y = self._by_member(x)
        log_det = total(self.log_diagonal)[:, None].expand(-1, y.shape[1])
        for kept, network in zip(self.kept, self.networks, strict=True):
            shift, log_scale = self._moves(kept, network, y)
            y = y * log_scale.exp() + shift
            log_det = log_det + total(log_scale)
        z = torch.bmm(y - self.mean, self._triangular().mT)
        return z.transpose(0, 1).reshape(x.shape), log_det.mT.reshape(-1)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and `log |det dx/dz|`."""
        y = self._by_member(z)
        y = torch.linalg.solve_triangular(self._triangular(), y.mT, upper=False).mT + self.mean
        log_det = total(self.log_diagonal)[:, None].expand(-1, y.shape[1])
        layers = list(zip(self.kept, self.networks, strict=True))
        for kept, network in reversed(layers):
            shift, log_scale = self._moves(kept, network, y)
            y = (y - shift) * (-log_scale).exp()
            log_det = log_det + total(log_scale)
        return y.transpose(0, 1).reshape(z.shape), -log_det.mT.reshape(-1)

    def _by_member(self, x: Tensor) -> Tensor:
        if len(x) % self.members:
            raise ValueError(f"{len(x)} rows cannot take turns among {self.members} members")
        return x.reshape(-1, self.members, self.features).transpose(0, 1)

    def _moves(self, kept: Tensor, network: nn.Module, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return shift and log-scale, nothing where the layer keeps."""
        keep = kept[:, None]
        shift, raw = network(y * keep).chunk(2, 2)
        moves = 1 - keep
        # Bounded: no layer stretches by more than e^2.
        return shift * moves, 2 * torch.tanh(0.5 * raw) * moves

    def _triangular(self) -> Tensor:
        return self.lower.tril(-1) + self.log_diagonal.exp().diag_embed()


def _halves(couplings: int, members: int, features: int) -> Tensor:
    """Return what each layer keeps, 1 or 0, `(couplings, members, features)`; pairs complement."""
    if couplings % 2:
        raise ValueError(f"couplings come in pairs; got {couplings}")
    order = torch.rand(couplings // 2, members, features).argsort(2)
    first = (order < (features + 1) // 2).float()
    return torch.stack([first, 1 - first], 1).flatten(0, 1)
