"""A flow inside another that does the same in another way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.autograd import forward_ad

from plmcmc.flows.protocol import Flow


class Wrapped(nn.Module, ABC):
    """The same flow; how its passes are run is up to `_call`.

    Args:
        flow: the flow.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow

    @abstractmethod
    def _call(self, name: str, x: Tensor) -> Any:
        """Return what the flow's method of this name says."""

    def _pass(self, name: str, x: Tensor) -> Any:
        # Whoever compiles more than this pass wants the flow itself.
        alone = not torch.compiler.is_compiling()
        return self._call(name, x) if alone else getattr(self.flow, name)(x)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the flow does."""
        return self._pass("to_latent", x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the flow does."""
        return self._pass("to_data", z)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return what the flow does."""
        return self._pass("latent_log_prob", z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return what the flow does."""
        return self.flow.latent_sample(rows, generator)

    def __getattr__(self, name: str) -> Any:
        """Return what else the flow may have, such as `tempered`."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "flow":
                raise
            return getattr(self.flow, name)


def has_tangent(x: Tensor) -> bool:
    """Return whether a forward-mode derivative is being taken."""
    return forward_ad.unpack_dual(x).tangent is not None
