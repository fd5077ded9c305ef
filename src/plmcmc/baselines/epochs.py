"""Epochs of a baseline's training, by the one loop: one that is stopped goes on from its file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from plmcmc.chains import Checkpoint, Stepper, fingerprint, going_on, progress_bar, run
from plmcmc.rng import Streams
from plmcmc.training import resuming

# Settings that training does not depend on, or that are noted in another way.
ASIDE = ("random_state", "device", "progress", "samples")


class Epochs(NamedTuple):
    """How many epochs are done; the weights live in the networks."""

    done: Tensor


def run_epochs(
    stepper: Stepper, source: Generator, settings: Any, title: str, checkpoint: Checkpoint | None
) -> None:
    """Train for as many epochs as the settings have, those of a checkpoint included.

    Args:
        stepper: from `Epochs` to `Epochs`, and words on how one went.
        source: of all random numbers.
        settings: an imputer's.
        title: what is being done.
        checkpoint: where to resume from, and to save to.
    """
    with progress_bar(title, settings.epochs, show=settings.progress) as report:
        run(
            stepper,
            Epochs(torch.zeros((), dtype=torch.int64)),
            Streams([source], [1]),
            settings.epochs,
            checkpoint=checkpoint,
            on_resume=going_on(report, "epoch"),
            on_step=report,
        )


def checkpoint_of(
    path: str | Path | None, settings: Any, seed: int, *data: Tensor
) -> Checkpoint | None:
    """Return what a training saves itself to, if it does.

    After every epoch, unless saving takes more than a twentieth of the time.

    Args:
        path: the file.
        settings: an imputer's.
        seed: of the training.
        *data: what is trained on, where it is.
    """
    if path is None:
        return None
    names = [own.name for own in fields(settings) if own.name not in ASIDE]
    identity = {name: str(getattr(settings, name)) for name in names}
    identity |= {"method": type(settings).__name__, "seed": str(seed)}
    identity |= {"data": fingerprint(*data), "device": data[0].device.type}
    return resuming.checkpoint_of(path, identity)
