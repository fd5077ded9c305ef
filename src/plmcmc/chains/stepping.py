"""How a kernel's steps are taken: sieved, compiled, replayed, or as they are."""

from __future__ import annotations

from plmcmc.chains.compiled_steps import CompiledSteps
from plmcmc.chains.early_rejection import EarlyRejection
from plmcmc.chains.replayed import Replayed
from plmcmc.chains.run import Stepper
from plmcmc.kernels import Kernel, Metropolis, State
from plmcmc.kernels.half_steps import most_of
from plmcmc.rng import BLOCK_ROWS

# Fewer rows are not worth two halves.
LEAST = 2 * BLOCK_ROWS


def stepper_of(kernel: Kernel, state: State, *, compiled: bool = False) -> Stepper:
    """Return what takes a kernel's steps from such states in the fastest way there is.

    Args:
        kernel: whose steps.
        state: says how many rows there are, and where.
        compiled: let torch compile them.
    """
    replay = state.completion.is_cuda
    most = most_of(kernel) if len(state.completion) >= LEAST else None
    if most is not None and isinstance(kernel, Metropolis):
        return EarlyRejection(kernel, most, compiled=compiled, replay=replay)
    stepper: Stepper = CompiledSteps(kernel) if compiled else kernel
    return Replayed(stepper) if replay else stepper
