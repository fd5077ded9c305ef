"""A flow whose passes are compiled: what lies between its matrix products becomes few kernels.

Worth it for long runs on a GPU, where a pass of small batches is bound by how many kernels it has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.autograd import forward_ad

from plmcmc.flows.protocol import Flow


class CompileWarning(UserWarning):
    """A flow could not be compiled, and runs as it is."""


class Compiled(nn.Module):
    """The same flow; passes whose slopes nobody wants are compiled, once for all numbers of rows.

    Args:
        flow: the flow.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow
        self._fast: dict[str, Callable[[Tensor], Any]] = {}
        self._possible = True

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the flow does."""
        return self._call("to_latent", x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the flow does."""
        return self._call("to_data", z)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return what the flow does."""
        return self._call("latent_log_prob", z)

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

    def __getstate__(self) -> dict[str, Any]:
        """Copies compile anew: what is compiled has the weights of this one."""
        return self.__dict__ | {"_fast": {}}

    def _call(self, name: str, x: Tensor) -> Any:
        plain = getattr(self.flow, name)
        if not self._possible or torch.is_grad_enabled() or _has_tangent(x):
            return plain(x)
        if name not in self._fast:
            self._fast[name] = torch.compile(plain, dynamic=True)
        try:
            return self._fast[name](x)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            self._possible = False
            warnings.warn(
                f"the flow cannot be compiled, and runs as it is ({error!s:.200})",
                CompileWarning,
                stacklevel=2,
            )
            return plain(x)


def _has_tangent(x: Tensor) -> bool:
    return forward_ad.unpack_dual(x).tangent is not None
