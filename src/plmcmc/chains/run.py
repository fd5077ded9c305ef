"""The one loop: sampling and training both go through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Protocol

import torch

from plmcmc.chains.checkpoint import Checkpoint
from plmcmc.chains.record import Recorder
from plmcmc.rng import Streams


class Stepper(Protocol):
    """Anything that steps: every kernel, and an epoch of training."""

    def step(self, state: Any, streams: Streams) -> tuple[Any, Any]:
        """Return the next state, and what happened."""
        ...


def run(
    stepper: Stepper,
    state: Any,
    streams: Streams,
    steps: int,
    *,
    recorders: Sequence[Recorder] = (),
    checkpoint: Checkpoint | None = None,
    on_step: Callable[[int, Any], None] | None = None,
    on_resume: Callable[[int], None] | None = None,
    stop: Callable[[Any], bool] | None = None,
) -> Any:
    """Step `steps` times and return the last state.

    Args:
        stepper: what steps.
        state: where to begin; a NamedTuple of tensors.
        streams: random numbers; all that a step draws comes from here.
        steps: how many steps in all, those of a resumed checkpoint included.
        recorders: see every step.
        checkpoint: where to resume from, and to save to now and then.
        on_step: told the number of steps done and the step's info, for a progress bar.
        on_resume: told the number of steps done before, if a checkpoint has some and not all.
        stop: asked before every step whether to end early.
    """
    first = 0
    if checkpoint is not None:
        checkpoint.check_place()
        if checkpoint.path.exists():
            first, state = checkpoint.load(state, streams, recorders, stepper)
            if on_resume is not None and 0 < first < steps:
                on_resume(first)
    # When a save will not take too large a share of the time.
    wanted = 0.0
    with torch.no_grad():
        for step in range(first + 1, steps + 1):
            if stop is not None and stop(state):
                break
            state, info = stepper.step(state, streams)
            for recorder in recorders:
                recorder.record(step, state, info)
            if checkpoint is not None and _due(checkpoint, step, steps, wanted):
                began = perf_counter()
                checkpoint.save(step, state, streams, recorders, stepper)
                wanted = perf_counter() + checkpoint.rest * (perf_counter() - began)
            if on_step is not None:
                on_step(step, info)
    return state


def _due(checkpoint: Checkpoint, step: int, steps: int, wanted: float) -> bool:
    return step == steps or (step % checkpoint.every == 0 and perf_counter() >= wanted)
