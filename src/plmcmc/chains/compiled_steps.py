"""Steps that are compiled whole: random numbers come first, the rest is one function of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plmcmc.chains.replayed import MOST_PASSES
from plmcmc.chains.run import Stepper
from plmcmc.flows.passes.compiled import Fused
from plmcmc.rng import Streams


class CompiledSteps:
    """The same steps; cheap ones are compiled, once for all numbers of rows.

    The first step is watched: kernels ask for the same numbers at every step, since streams may not
    depend on what chains do.

    Args:
        kernel: whose steps to compile.
    """

    def __init__(self, kernel: Stepper) -> None:
        self.kernel = kernel
        self.possible = True
        self._asked: list[_Asked] = []
        self._fast: Fused | None = None

    def step(self, state: Any, streams: Streams) -> tuple[Any, Any]:
        """Return what the kernel does."""
        if self._fast is not None:
            numbers = [asked.drawn(state, streams) for asked in self._asked]
            return self._fast(state, numbers)
        if not self.possible:
            return self.kernel.step(state, streams)
        watched = _Watched(streams)
        found, info = self.kernel.step(state, watched)
        # Dearer steps spend their time in passes, which are compiled on their own.
        self.possible = info.passes <= MOST_PASSES and not watched.others
        if self.possible:
            self._asked = watched.asked
            self._fast = Fused(self._from_numbers, "a step", dynamic=True)
        return found, info

    def _from_numbers(self, state: Any, numbers: Sequence[Tensor]) -> tuple[Any, Any]:
        return self.kernel.step(state, _Served(self._asked, numbers))


class _Asked(NamedTuple):
    """Numbers that a step asks for: of which kind, in which shape (rows first) and dtype."""

    kind: str
    event: torch.Size
    dtype: torch.dtype

    def drawn(self, state: Any, streams: Streams) -> Tensor:
        """Draw them from their streams."""
        own = state[0]
        like = torch.empty((len(own), *self.event), dtype=self.dtype, device=own.device)
        return streams.numbers(self.kind, like)


class _Watched(Streams):
    """Streams that note what they are asked for."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.asked: list[_Asked] = []
        self.others = False

    def numbers(self, kind: str, like: Tensor) -> Tensor:
        """Return what the streams do."""
        self.asked.append(_Asked(kind, like.shape[1:], like.dtype))
        return self.streams.numbers(kind, like)

    def __getattr__(self, name: str) -> Any:
        """Return what else the streams have: whoever needs it cannot be served from a list."""
        self.others = True
        return getattr(self.streams, name)


class _Served(Streams):
    """Streams of numbers that are there already."""

    def __init__(self, asked: Sequence[_Asked], numbers: Sequence[Tensor]) -> None:
        self.left = list(zip(asked, numbers, strict=True))

    def numbers(self, kind: str, like: Tensor) -> Tensor:
        """Return the next ones."""
        # Not by sizes: a step is compiled once for all of them.
        same = self.left and self.left[0][0].kind == kind and self.left[0][1].ndim == like.ndim
        if not same:
            raise ValueError(
                "expected a kernel that requests random numbers of the same kinds and shapes at "
                "every step; this one does not: leave compiled out"
            )
        return self.left.pop(0)[1]
