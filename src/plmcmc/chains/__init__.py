"""In: a kernel and starts. Out: recorded states; the one loop, its recorders and checkpoints.

`run` is the loop, from a `start` to what is on `record`. `stepping` picks the fastest way to take
the same steps: as they are, or by `compiled_steps`, `replayed` or `early_rejection`.
"""

from plmcmc.chains.checkpoint import (
    Checkpoint,
    CheckpointError,
    described,
    fingerprint,
    resumed_seed,
)
from plmcmc.chains.compiled_steps import CompiledSteps
from plmcmc.chains.early_rejection import EarlyRejection
from plmcmc.chains.progress import Progress, going_on, in_silence, progress_bar
from plmcmc.chains.record import Acceptance, Completions, Recorder, Schedule
from plmcmc.chains.replayed import Replayed
from plmcmc.chains.run import Stepper, run
from plmcmc.chains.start import FromObserved, Given, NothingSeen, Start, Unconditional, start_of
from plmcmc.chains.stepping import stepper_of

__all__ = [
    "Acceptance",
    "Checkpoint",
    "CheckpointError",
    "CompiledSteps",
    "Completions",
    "EarlyRejection",
    "FromObserved",
    "Given",
    "NothingSeen",
    "Progress",
    "Recorder",
    "Replayed",
    "Schedule",
    "Start",
    "Stepper",
    "Unconditional",
    "described",
    "fingerprint",
    "going_on",
    "in_silence",
    "progress_bar",
    "resumed_seed",
    "run",
    "start_of",
    "stepper_of",
]
