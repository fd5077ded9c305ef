"""A flow for tables: couplings on normal scores, then a triangular layer; several members at once.

It starts at a Gaussian: with its couplings at nothing it is the Gaussian copula of the table.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from plmcmc.flows.base import LatentFlow, keep_inverse, seeded, total
from plmcmc.flows.passes.small_products import even_product


class _Networks(nn.Module):
    """One small network for each member, as one batched product; columns before rows."""

    def __init__(self, members: int, widths: list[int]) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for number, (before, after) in enumerate(pairwise(widths), start=2):
            # The last layer at nothing: the flow starts at its triangular layer.
            scale = 0.0 if number == len(widths) else max(before, 1) ** -0.5
            self.weights.append(nn.Parameter(scale * torch.randn(members, after, before)))
            self.biases.append(nn.Parameter(torch.zeros(members, after, 1)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return shifts and log-scales `(members, out, rows)` from `(members, in, rows)`."""
        last = len(self.weights) - 1
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = even_product(weight, x, bias)
            x = silu(x) if number < last else x
        shift, raw = x.chunk(2, 1)
        # Bounded: no layer stretches by more than e^2.
        return shift, 2 * torch.tanh(0.5 * raw)


class TabularFlow(LatentFlow):
    """Affine couplings with random halves, then `z = W (x - mean)`, normal latents.

    The rows of a batch are assigned to members in turn: the first row to the first member, and so
    on; the number of rows must be a multiple of the number of members.

    Args:
        features: number of columns.
        members: number of independent flows.
        couplings: number of coupling layers, even; each second one transforms what the previous one
            left unchanged.
        depth: hidden layers of each network.
        width: width of the hidden layers.
        random_state: seed for the random halves and the weights.
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
        if couplings % 2:
            raise ValueError(f"couplings must be an even number; got {couplings}")
        self.config |= {"members": members, "couplings": couplings, "depth": depth, "width": width}
        self.members, self.first = members, (features + 1) // 2
        with seeded(random_state):
            self.order: Tensor
            self.register_buffer("order", torch.rand(couplings // 2, members, features).argsort(2))
            self.back: Tensor
            keep_inverse(self, "order", "back")
            self.networks = nn.ModuleList(
                _Networks(members, [seen] + [width] * depth + [2 * (features - seen)])
                for _ in range(couplings // 2)
                for seen in (self.first, features - self.first)
            )
        self.mean = nn.Parameter(torch.zeros(members, features, 1))
        self.lower = nn.Parameter(torch.zeros(members, features, features))
        self.log_diagonal = nn.Parameter(torch.zeros(members, features))

    def start_at(self, mean: Tensor, covariance: Tensor) -> None:
        """Set the triangular layer so that this Gaussian has standard normal latents.

        Args:
            mean: `(columns,)` for all members, or `(members, columns)`.
            covariance: `(columns, columns)`, or `(members, columns, columns)`.
        """
        factor = torch.linalg.cholesky(covariance.double())
        eye = torch.eye(self.features, dtype=torch.float64, device=factor.device)
        inverse = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        diagonal = inverse.diagonal(dim1=-2, dim2=-1).log()
        with torch.no_grad():
            self.mean.copy_(mean[..., None].expand_as(self.mean))
            self.lower.copy_(inverse.tril(-1).expand_as(self.lower))
            self.log_diagonal.copy_(diagonal.expand_as(self.log_diagonal))

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents and `log |det dz/dx|`, `(rows,)`."""
        y, log_scales = self._by_member(x), []
        for there, back, (first, second) in self._pairs():
            upper, lower = _picked(y, there).split([self.first, self.features - self.first], 1)
            shift, log_scale = first(upper)
            lower = lower * log_scale.exp() + shift
            log_scales.append(log_scale)
            shift, log_scale = second(lower)
            upper = upper * log_scale.exp() + shift
            log_scales.append(log_scale)
            y = _picked(torch.cat([upper, lower], 1), back)
        z = even_product(self._triangular(), y - self.mean)
        return self._by_row(z), self._log_det(log_scales)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and `log |det dx/dz|`."""
        y, log_scales = self._by_member(z), []
        y = torch.linalg.solve_triangular(self._triangular(), y, upper=False) + self.mean
        for there, back, (first, second) in reversed(self._pairs()):
            upper, lower = _picked(y, there).split([self.first, self.features - self.first], 1)
            shift, log_scale = second(lower)
            upper = (upper - shift) * (-log_scale).exp()
            log_scales.append(log_scale)
            shift, log_scale = first(upper)
            lower = (lower - shift) * (-log_scale).exp()
            log_scales.append(log_scale)
            y = _picked(torch.cat([upper, lower], 1), back)
        return self._by_row(y), -self._log_det(log_scales)

    def _by_member(self, x: Tensor) -> Tensor:
        """Return `(members, columns, rows)`: columns lie together, and halves of them are cheap."""
        if len(x) % self.members:
            raise ValueError(f"{len(x)} rows cannot be shared equally among {self.members} members")
        return x.reshape(-1, self.members, self.features).permute(1, 2, 0).contiguous()

    def _by_row(self, y: Tensor) -> Tensor:
        return y.permute(2, 0, 1).reshape(-1, self.features)

    def _pairs(self) -> list[tuple[Tensor, Tensor, tuple[nn.Module, nn.Module]]]:
        """Return each pair of layers, with the order of columns it works in and the way back."""
        starts = torch.arange(self.members, device=self.order.device)[:, None] * self.features
        there = (self.order + starts).flatten(1)
        back = (self.back + starts).flatten(1)
        networks = list(self.networks)
        pairs = zip(networks[::2], networks[1::2], strict=True)
        return list(zip(there, back, pairs, strict=True))

    def _log_det(self, log_scales: list[Tensor]) -> Tensor:
        stretched = torch.cat(log_scales, 1).sum(1, dtype=torch.float64) if log_scales else 0.0
        return (total(self.log_diagonal)[:, None] + stretched).mT.reshape(-1)

    def _triangular(self) -> Tensor:
        return self.lower.tril(-1) + self.log_diagonal.exp().diag_embed()


def _picked(y: Tensor, places: Tensor) -> Tensor:
    """Return `(members, columns, rows)` with columns in another order, each member's its own."""
    return y.flatten(0, 1).index_select(0, places).reshape(y.shape)
