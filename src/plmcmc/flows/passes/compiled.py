"""Work that torch compiles: what lies between matrix products becomes few kernels.

Worth it for long runs on a GPU, where a pass of small batches is bound by how many kernels it has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from plmcmc.flows.passes.lowered import has_conditioners
from plmcmc.flows.passes.wrapped import Wrapped, has_tangent
from plmcmc.flows.protocol import Flow


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
                with _numbers_as_constants():
                    return self.fast(*inputs)
            # Compilers fail before anything is run, but for what they compile in parts.
            except RuntimeError as error:
                self.give_up(error)
        return self.work(*inputs)

    def give_up(self, error: RuntimeError) -> None:
        """Run it as it is from now on, if it was the compiler that failed; else raise."""
        if self.fast is None or isinstance(error, torch.OutOfMemoryError):
            raise error
        self.fast = None
        warnings.warn(
            f"could not compile {self.what}; running it uncompiled ({error!s:.200})",
            CompileWarning,
            stacklevel=3,
        )


def _numbers_as_constants() -> AbstractContextManager[object]:
    """Let torch compile anew for every other number that a function finds in its objects.

    By default it tries to make do with one function for all of them, which up to torch 2.13 at
    least may go on with the first one's number and say nothing (pytorch issue 194976).
    """
    import torch._dynamo.config as compiler

    return nullcontext() if compiler.specialize_float else _constants()


@cache
def _constants() -> AbstractContextManager[object]:
    # Once: each leaves something behind in its thread.
    import torch._dynamo.config as compiler

    return compiler.patch(specialize_float=True)


def with_own_code(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, for torch another one: it compiles none for many objects."""

    def alone(*inputs: Any) -> Any:
        return work(*inputs)

    alone.__code__ = alone.__code__.replace()
    return alone


class Compiled(Wrapped):
    """The same flow; passes without gradients are compiled, once for all numbers of rows.

    Passes with gradients belong to a density, and are compiled together with it: see `fused`.

    Args:
        flow: the flow.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._fast: dict[str, Fused] = {}
        # Torch's compiler gets slopes of a spline wrong (2.13, zuko's NSF: by a seventh of the
        # largest), and does not say so: those of NICE and RealNVP are tested.
        self.with_slopes = has_conditioners(flow)

    def __getstate__(self) -> dict[str, Any]:
        """Copies compile anew: what is compiled has the weights of this one."""
        return self.__dict__ | {"_fast": {}}

    def _call(self, name: str, x: Tensor) -> Any:
        plain = getattr(self.flow, name)
        if torch.is_grad_enabled() or has_tangent(x):
            return plain(x)
        return self.fused(plain, f"the flow's {name}")(x)

    def fused(self, work: Callable[..., Any], what: str) -> Fused:
        """Return a function that uses this flow, compiled together with the flow's passes.

        Args:
            work: the function.
            what: it is; the same words are taken for the same function.
        """
        if what not in self._fast:
            self._fast[what] = Fused(work, what, dynamic=True)
        return self._fast[what]


def compiled_within(flow: object) -> Compiled | None:
    """Return the compiled flow that a flow is or is wrapped around, if slopes are compiled, too."""
    while isinstance(flow, Wrapped) and not isinstance(flow, Compiled):
        flow = flow.flow
    return flow if isinstance(flow, Compiled) and flow.with_slopes else None
