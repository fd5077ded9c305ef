"""The flow of complete digits that several experiments ask: trained once, and kept (D.3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch

from plmcmc.experiments.cache import shared_path, trained_once
from plmcmc.experiments.readings import LEVELS
from plmcmc.experiments.sources import Pixels
from plmcmc.experiments.study import Place
from plmcmc.flows import Preprocessed
from plmcmc.training import MonteCarloEM, paper_mnist

# How the paper is read where it tells of the flow, for all that ask it.
FLOW_READINGS = (
    LEVELS,
    "At full scale the flow is trained with networks in bfloat16, compiled steps and weights in "
    "float32; chains evaluate it in float32. D.3 names no precision.",
    "Pixels that are constant in the training set cannot be divided by their standard deviation "
    "(D.3): they are only centred, with a scale of 1.",
)


@dataclass(frozen=True)
class FlowOfDigits:
    """The paper's NICE on whitened pixels, trained on complete digits at its settings.

    1,000 epochs of RMSprop at 1e-5 with momentum .9 in batches of 200: training from incomplete
    digits with nothing missing, which is what the paper wants to compare with.

    Args:
        width: of the networks.
        epochs: of training.
        precision: that networks compute in while training.
        compiled: let torch compile the steps: for long trainings on a GPU.
    """

    width: int = 1000
    epochs: int = 1000
    precision: str = "float32"
    compiled: bool = False

    def trained(self, digits: Pixels, place: Place, seed: int = 0) -> Preprocessed:
        """Return the flow of digits as flat rows `(rows, pixels)`, behind its whitening.

        One that is there already is read; training that was stopped goes on.
        """
        path = shared_path(place, "digits", asdict(self), seed, digits)
        return trained_once(path, place, partial(self._fit, digits, place, seed))

    def _fit(self, digits: Pixels, place: Place, seed: int, checkpoint: Path) -> Preprocessed:
        preset = replace(paper_mnist(), width=self.width, features=digits[0].size)
        schedule = replace(
            preset.schedule,
            epochs=self.epochs,
            every=max(1, self.epochs // 20),
            precision=self.precision,
            compiled=self.compiled,
        )
        rows = torch.as_tensor(digits).flatten(1)
        flow = preset.flow(seed).to(place.device)
        fitted = MonteCarloEM(schedule).fit(
            flow, rows, random_state=seed, progress=place.progress, checkpoint=checkpoint
        )
        return fitted.flow
