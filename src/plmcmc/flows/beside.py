"""Flows of one kind of rows side by side: members of all of them take turns in a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn


class Beside(nn.Module):
    """An ensemble of flows that are themselves ensembles.

    The rows of a batch are assigned to members in turn: first to those of the first flow, then to
    those of the second, and so on.

    Args:
        flows: each with `members`, and all with the same number of `features`.
    """

    def __init__(self, flows: Sequence[Any]) -> None:
        super().__init__()
        self.flows = nn.ModuleList(flows)
        self.sizes = [flow.members for flow in flows]
        self.members, self.features = sum(self.sizes), flows[0].features

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return latents and `log |det dz/dx|`."""
        return self._each(x, lambda flow, own: flow.to_latent(own))

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and `log |det dx/dz|`."""
        return self._each(z, lambda flow, own: flow.to_data(own))

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return each row's log-density under its member's latents."""
        return self._each(z, lambda flow, own: (flow.latent_log_prob(own),))[0]

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return latents of the members by turns."""
        turns = -(-rows // self.members)
        flows: list[Any] = [*self.flows]
        drawn = [flow.latent_sample(turns * flow.members, generator) for flow in flows]
        return self._joined(drawn)[:rows]

    def _each(self, x: Tensor, work: Callable[[Any, Tensor], Sequence[Tensor]]) -> Any:
        """Return what each flow makes of its own rows, in their order."""
        if len(x) % self.members:
            raise ValueError(f"{len(x)} rows cannot be shared equally among {self.members} members")
        parts = x.unflatten(0, (-1, self.members)).split(self.sizes, 1)
        found = [work(flow, own.flatten(0, 1)) for flow, own in zip(self.flows, parts, strict=True)]
        return tuple(self._joined(parts) for parts in zip(*found, strict=True))

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        pairs = zip(parts, self.sizes, strict=True)
        return torch.cat([own.unflatten(0, (-1, size)) for own, size in pairs], 1).flatten(0, 1)
