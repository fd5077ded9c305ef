"""Steps that a GPU replays whole: random numbers, passes and decision in one launch."""

from __future__ import annotations

from typing import Any

import torch

from plmcmc.chains.run import Stepper
from plmcmc.flows import record, rehearse
from plmcmc.rng import Streams

# Steps before one is recorded: by then all that is found out once is.
FIRST = 3
# Dearer steps spend their time in passes, which are replayed on their own.
MOST_PASSES = 4


class Replayed:
    """The same steps; what one returns is overwritten by the next.

    Args:
        kernel: whose steps to replay; those that wait for the device run as they are.
    """

    def __init__(self, kernel: Stepper) -> None:
        self.kernel = kernel
        self.taken = 0
        self.possible = True
        self._again: _Recorded | None = None

    def step(self, state: Any, streams: Streams) -> tuple[Any, Any]:
        """Return what the kernel does."""
        self.taken += 1
        if self._again is None and self.possible and self.taken > FIRST:
            self._again = self._recorded(state, streams)
        if self._again is not None:
            if self._again.streams is not streams:
                raise ValueError(
                    "recorded steps can only use the random streams that they were recorded with"
                )
            return self._again(state)
        state, info = self.kernel.step(state, streams)
        self.possible = self.possible and info.passes <= MOST_PASSES
        return state, info

    def _recorded(self, state: Any, streams: Streams) -> _Recorded | None:
        # A rehearsal draws; the numbers are wanted once more.
        before = streams.tensors()
        own = type(state)(*(part.clone() for part in state))
        try:
            rehearse(lambda: self.kernel.step(own, streams))
            streams.restore(before)
            return _Recorded(self.kernel, own, streams)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            # Generators that a failed recording has seen may think that it goes on.
            streams.renew(before)
            self.possible = False
            return None


class _Recorded:
    """One recorded step from `state` to itself."""

    def __init__(self, kernel: Stepper, state: Any, streams: Streams) -> None:
        self.state, self.streams, self.info = state, streams, None

        def work() -> tuple:
            new, self.info = kernel.step(state, streams)
            for own, part in zip(state, new, strict=True):
                own.copy_(part)
            return ()

        _, self.replay = record(work, streams.generators)

    def __call__(self, state: Any) -> tuple[Any, Any]:
        """Step on from a state."""
        for own, given in zip(self.state, state, strict=True):
            if own is not given:
                own.copy_(given)
        self.replay()
        return self.state, self.info
