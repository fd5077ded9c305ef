"""A flow whose passes a GPU replays: a deep flow is thousands of small kernels, slow to launch.

Sampling calls the same few methods with batches of the same shape, over and over. The third call
of a kind is captured, with its gradient if one is wanted, and later ones replay it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Generator, Tensor, nn

from plmcmc.flows.passes.wrapped import Wrapped, has_tangent
from plmcmc.flows.protocol import Flow

# Calls of a kind before one is captured: what is asked for once is not worth it.
FIRST = 3
# Numbers of a batch whose kernels take longer than launching them: a recording would cost memory,
# and save nothing.
LARGE = 2**24

Outputs = tuple[Tensor, ...]
Replay = Callable[[], None]
T = TypeVar("T")


class Captured(Wrapped):
    """The same flow, with its passes captured; weights must not change while it is in use.

    Args:
        flow: the flow.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._calls: dict[tuple, int] = {}
        self._passes: dict[tuple, _Pass] = {}
        self._possible = True

    def _call(self, name: str, x: Tensor) -> Any:
        found = self._passed(name, x)
        return found[0] if len(found) == 1 else found

    def _passed(self, name: str, x: Tensor) -> Outputs:
        sloped = torch.is_grad_enabled() and x.requires_grad
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            # Somebody records more than this pass.
            with frozen_weights(self.flow):
                return _outputs(self.flow, name, x)
        slow = has_tangent(x) or (torch.is_grad_enabled() and not sloped)
        if not self._possible or slow or x.numel() > LARGE:
            return _outputs(self.flow, name, x)
        kind = (name, x.shape, x.dtype, sloped)
        if kind not in self._passes:
            self._calls[kind] = self._calls.get(kind, 0) + 1
            if self._calls[kind] < FIRST:
                return _outputs(self.flow, name, x)
            try:
                with frozen_weights(self.flow):
                    self._passes[kind] = _captured(self.flow, name, x, sloped=sloped)
            # A flow that waits for the device, or asks it something: as slow as ever, and right.
            except RuntimeError as error:
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self._possible = False
                return _outputs(self.flow, name, x)
        own = self._passes[kind]
        return _Replayed.apply(x, own) if sloped else own.ahead(x)


class _Pass:
    """One captured pass, and the way back of its gradient."""

    def __init__(self, x: Tensor, outputs: Outputs, replay: Replay, back: _Back | None) -> None:
        self.x, self.outputs, self.replay, self.back = x, outputs, replay, back
        self.number = 0

    def ahead(self, x: Tensor) -> Outputs:
        """Replay with another input."""
        self.number += 1
        with torch.no_grad():
            self.x.copy_(x)
            self.replay()
            return tuple(own.clone() for own in self.outputs)

    def slope(self, slopes: Outputs) -> Tensor:
        """Replay the gradient of the last input."""
        assert self.back is not None
        for own, given in zip(self.back.slopes, slopes, strict=True):
            own.copy_(given)
        self.back.replay()
        return self.back.gradient.clone()


class _Back(NamedTuple):
    """The gradient of a pass: what comes in, and what goes out."""

    slopes: Outputs
    gradient: Tensor
    replay: Replay


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, own: _Pass) -> Outputs:
        found = own.ahead(x)
        ctx.own, ctx.number = own, own.number
        return found

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        if ctx.number != ctx.own.number:
            raise RuntimeError("a captured pass was run again before its gradient was computed")
        return ctx.own.slope(slopes), None


def _captured(flow: Flow, name: str, x: Tensor, *, sloped: bool) -> _Pass:
    own = x.detach().clone().requires_grad_(sloped)

    def ahead() -> Outputs:
        with torch.set_grad_enabled(sloped):
            return _outputs(flow, name, own)

    def gradient(ends: Outputs, slopes: Outputs) -> Outputs:
        # An end may not depend on the input, as volumes of additive couplings.
        parts = [pair for pair in zip(ends, slopes, strict=True) if pair[0].requires_grad]
        ends, slopes = zip(*parts, strict=True)
        return torch.autograd.grad(ends, own, slopes, allow_unused=True, materialize_grads=True)

    def rehearsal() -> None:
        ends = ahead()
        if sloped:
            gradient(ends, ends)

    rehearse(rehearsal)
    outputs, replay = record(ahead)
    if not sloped:
        return _Pass(own, outputs, replay, None)
    slopes = tuple(torch.zeros_like(part) for part in outputs)
    (found,), back = record(lambda: gradient(outputs, slopes))
    return _Pass(own, tuple(part.detach() for part in outputs), replay, _Back(slopes, found, back))


def replayed(
    work: Callable[[Tensor], Tensor], x: Tensor, generators: Iterable[Generator] = ()
) -> Callable[[Tensor], Tensor]:
    """Return `work` as a replayed CUDA graph, for inputs like `x`; unchanged if not possible.

    It is run once for this. `generators` are those that it draws from.
    """
    if not x.is_cuda:
        return work
    own = x.clone()
    try:
        rehearse(lambda: work(own))
        (found,), replay = record(lambda: (work(own),), generators)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        return work

    def again(x: Tensor) -> Tensor:
        own.copy_(x)
        replay()
        return found.clone()

    return again


def rehearse(work: Callable[[], T]) -> T:
    """Run once on a side stream, so that everything that is allocated only once is allocated."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = work()
    torch.cuda.current_stream().wait_stream(stream)
    return found


def record(
    work: Callable[[], Outputs], generators: Iterable[Generator] = ()
) -> tuple[Outputs, Replay]:
    """Return the buffers with the results of `work`, and a function that replays it.

    Its random generators advance with every replay; recording itself draws nothing.
    """
    graph = torch.cuda.CUDAGraph()
    for source in generators:
        graph.register_generator_state(source)
    with _nothing_collected(), torch.cuda.graph(graph):
        outputs = work()
    return outputs, graph.replay


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Let no garbage be collected meanwhile: an older recording in it would spoil the new one."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()


def _outputs(flow: Flow, name: str, x: Tensor) -> Outputs:
    found = getattr(flow, name)(x)
    return found if isinstance(found, tuple) else (found,)


@contextmanager
def frozen_weights(flow: Flow) -> Iterator[None]:
    """Let nobody want slopes of the weights for a while: what hangs on them alone is kept."""
    weights = list(flow.parameters()) if isinstance(flow, nn.Module) else []
    wanted = [weight.requires_grad for weight in weights]
    try:
        for weight in weights:
            weight.requires_grad_(False)
        yield
    finally:
        for weight, wants in zip(weights, wanted, strict=True):
            weight.requires_grad_(wants)
