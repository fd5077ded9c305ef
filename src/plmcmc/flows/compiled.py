"""Work that torch compiles: what lies between matrix products becomes few kernels.

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


class Fused:
    """A function as torch compiles it; where torch cannot, as it is.

    Args:
        work: the function.
        what: it is, for a warning.
        dynamic: whether it is compiled once for all numbers of rows.
        options: of torch's compiler.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        what: str,
        *,
        dynamic: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.work, self.what = work, what
        self.fast: Callable[..., Any] | None = torch.compile(work, dynamic=dynamic, options=options)

    def __call__(self, *inputs: Any) -> Any:
        """Return what the function does."""
        if self.fast is not None:
            try:
                return self.fast(*inputs)
            # Compilers fail before anything is run, but for what they compile in parts.
            except RuntimeError as error:
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self.fast = None
                warnings.warn(
                    f"{self.what} cannot be compiled, and runs as it is ({error!s:.200})",
                    CompileWarning,
                    stacklevel=2,
                )
        return self.work(*inputs)


def with_own_code(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, for torch another one: it compiles none for many objects."""

    def alone(*inputs: Any) -> Any:
        return work(*inputs)

    alone.__code__ = alone.__code__.replace()
    return alone


class Compiled(Wrapped):
    """The same flow; passes whose slopes nobody wants are compiled, once for all numbers of rows.

    Args:
        flow: the flow.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._fast: dict[str, Fused] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Copies compile anew: what is compiled has the weights of this one."""
        return self.__dict__ | {"_fast": {}}

    def _call(self, name: str, x: Tensor) -> Any:
        plain = getattr(self.flow, name)
        if torch.is_grad_enabled() or has_tangent(x):
            return plain(x)
        if name not in self._fast:
            self._fast[name] = Fused(plain, f"the flow's {name}", dynamic=True)
        return self._fast[name](x)
