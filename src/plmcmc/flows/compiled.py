"""A flow whose passes are compiled: what lies between its matrix products becomes few kernels.

Worth it for long runs on a GPU, where a pass of small batches is bound by how many kernels it has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plmcmc.flows.protocol import Flow
from plmcmc.flows.wrapped import Wrapped, has_tangent


class CompileWarning(UserWarning):
    """A flow could not be compiled, and runs as it is."""


class Compiled(Wrapped):
    """The same flow; passes whose slopes nobody wants are compiled, once for all numbers of rows.

    Args:
        flow: the flow.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._fast: dict[str, Callable[[Tensor], Any]] = {}
        self._possible = True

    def __getstate__(self) -> dict[str, Any]:
        """Copies compile anew: what is compiled has the weights of this one."""
        return self.__dict__ | {"_fast": {}}

    def _call(self, name: str, x: Tensor) -> Any:
        plain = getattr(self.flow, name)
        if not self._possible or torch.is_grad_enabled() or has_tangent(x):
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
