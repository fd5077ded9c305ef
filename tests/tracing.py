"""Torch's compiler without a compiler: what it is given is traced, and run as traced."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from plmcmc.flows.passes import compiled


@contextmanager
def tracing(own_backend=None) -> Iterator[list]:
    """Trace instead of compiling; the list grows with every trace."""
    traces = []

    def backend(graph, inputs):
        traces.append(graph)
        graph.sloped = sum(isinstance(own, Tensor) and own.requires_grad for own in inputs)
        return graph.forward if own_backend is None else own_backend(graph, inputs)

    torch.compiler.reset()
    own = torch.compile
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # Torch uses what torch says not to use.
        warnings.simplefilter("ignore", DeprecationWarning)
        patch.setattr(
            compiled.torch,
            "compile",
            lambda work, dynamic, options: own(work, backend=backend, dynamic=dynamic),
        )
        yield traces
    torch.compiler.reset()


@contextmanager
def without_a_compiler(error: type[Exception] = RuntimeError) -> Iterator[None]:
    """Let every compilation fail."""

    def refuse(work, dynamic, options):
        def fail(*inputs):
            raise error("no C compiler was found")

        return fail

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled.torch, "compile", refuse)
        yield
