"""RealNVP for flat rows: affine couplings whose log-scale is bounded."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plmcmc.flows.base import LatentFlow, keep_inverse, seeded, total
from plmcmc.flows.conditioner import conditioner, halves


class RealNVP(LatentFlow):
    """Affine couplings (Dinh et al., 2017); unlike NICE, not volume-preserving.

    Couplings come in pairs; each pair has its own random partition, so that both halves are
    transformed.

    Args:
        features: number of columns, at least 2.
        couplings: number of couplings.
        depth: hidden layers of each conditioner.
        width: units of each hidden layer.
        latent: `"normal"` or `"logistic"`.
        activation: activation function of the conditioners.
        bound: largest absolute log-scale of one coupling; keeps the inverse well conditioned.
        random_state: seed for the partitions and the initial weights.
    """

    name = "realnvp"

    def __init__(
        self,
        features: int,
        *,
        couplings: int = 4,
        depth: int = 2,
        width: int = 64,
        latent: str = "normal",
        activation: str = "silu",
        bound: float = 2.0,
        random_state: int | None = None,
    ) -> None:
        super().__init__(features, latent)
        self.halves = halves(features, couplings)
        if bound <= 0:
            raise ValueError(f"bound must be positive; got {bound}")
        self.config |= {"couplings": couplings, "depth": depth, "width": width}
        self.config |= {"activation": activation, "bound": bound}
        self.bound = bound
        with seeded(random_state):
            self.orders: Tensor
            self.register_buffer("orders", _orders(features, couplings))
            self.back: Tensor
            keep_inverse(self, "orders", "back")
            self.conditioners = nn.ModuleList(
                conditioner(self._split(i)[0], 2 * self._split(i)[1], width, depth, activation)
                for i in range(couplings)
            )
        self.shift = nn.Parameter(torch.zeros(features))
        self.log_scale = nn.Parameter(torch.zeros(features))

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        log_det = total(self.log_scale).expand(len(x))
        for index, (order, back) in enumerate(zip(self.orders, self.back, strict=True)):
            fixed, moved = x.index_select(1, order).split(self._split(index), 1)
            shift, log_scale = self._affine(index, fixed)
            moved = (moved + shift) * log_scale.exp()
            x = torch.cat((fixed, moved), 1).index_select(1, back)
            log_det = log_det + total(log_scale)
        return (x + self.shift) * self.log_scale.exp(), log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        log_det = -total(self.log_scale).expand(len(z))
        x = z * (-self.log_scale).exp() - self.shift
        ways = list(enumerate(zip(self.orders, self.back, strict=True)))
        for index, (order, back) in reversed(ways):
            fixed, moved = x.index_select(1, order).split(self._split(index), 1)
            shift, log_scale = self._affine(index, fixed)
            moved = moved * (-log_scale).exp() - shift
            x = torch.cat((fixed, moved), 1).index_select(1, back)
            log_det = log_det - total(log_scale)
        return x, log_det

    def _split(self, index: int) -> tuple[int, int]:
        """Sizes of the fixed and the moved part of one coupling."""
        first, second = self.halves
        return (first, second) if index % 2 == 0 else (second, first)

    def _affine(self, index: int, fixed: Tensor) -> tuple[Tensor, Tensor]:
        shift, raw = self.conditioners[index](fixed).chunk(2, 1)
        return shift, self.bound * torch.tanh(raw / self.bound)


def _orders(features: int, couplings: int) -> Tensor:
    """Return one column order per coupling; the second of a pair is the first turned round."""
    orders: list[Tensor] = []
    for index in range(couplings):
        orders.append(torch.randperm(features) if index % 2 == 0 else orders[-1].flip(0))
    return torch.stack(orders) if orders else torch.empty(0, features, dtype=torch.long)
