"""The paper's flow of digits, trained on incomplete ones (E.1): trained once, and kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.experiments.cache import read_arrays, shared_path, trained_once, write_arrays
from plmcmc.experiments.sources import Pixels
from plmcmc.experiments.study import Place
from plmcmc.flows import Preprocessed
from plmcmc.training import EMSchedule, FittedEM, MonteCarloEM, paper_mnist

Seen = NDArray[np.bool_]


class Trained(NamedTuple):
    """What training came to.

    Attributes:
        flow: of flat rows of pixels, behind its whitening.
        completed: `(digits, pixels)`, as the last E-step completed them.
        acceptance: share of proposals accepted, every E-step.
        losses: minus the mean log-likelihood of completed digits, every epoch.
    """

    flow: Preprocessed
    completed: NDArray[np.floating]
    acceptance: NDArray[np.float64]
    losses: NDArray[np.float64]


@dataclass(frozen=True)
class FlowOfHoledDigits:
    """Monte Carlo EM at the paper's settings (E.1), and how much of it.

    Args:
        width: of the networks.
        epochs: of training. None of its E-steps follows the last.
        every: epochs between two E-steps, and before the first.
        later: epoch from which on fresh draws have a smaller deviation.
        proposals: of every chain in an E-step.
        learning_rate: of RMSprop.
        precision: that networks compute in.
        compiled: let torch compile the steps: for long trainings on a GPU.
    """

    width: int = 1000
    epochs: int = 1000
    every: int = 50
    later: int = 500
    proposals: int = 2000
    learning_rate: float = 1e-5
    precision: str = "float32"
    compiled: bool = False

    @property
    def first_round(self) -> FlowOfHoledDigits:
        """The same training up to its first E-step: an epoch more, since none follows the last."""
        return replace(self, epochs=self.every + 1)

    @property
    def schedule(self) -> EMSchedule:
        """The schedule of Monte Carlo EM."""
        preset = paper_mnist().schedule
        return replace(
            preset,
            epochs=self.epochs,
            every=self.every,
            later=((self.later, preset.later[0][1]),),
            proposals=self.proposals,
            learning_rate=self.learning_rate,
            precision=self.precision,
            compiled=self.compiled,
        )

    def trained(self, digits: Pixels, observed: Seen, place: Place, seed: int = 0) -> Trained:
        """Train on digits `(rows, height, width)`, of which not all was observed.

        What is there already is read; training that was stopped goes on.
        """
        path = shared_path(place, "holed-digits", asdict(self), seed, digits, observed)
        history = path.with_suffix(".npz")

        def train(checkpoint: Path) -> Preprocessed:
            fitted = self._fit(digits, observed, place, seed, checkpoint)
            # What the flow itself does not hold; the flow comes after.
            arrays = {"completed": fitted.completed[0], "acceptance": np.array(fitted.acceptance)}
            write_arrays(history, arrays | {"losses": np.array(fitted.losses)})
            return fitted.flow

        return Trained(trained_once(path, place, train), **read_arrays(history))

    def _fit(
        self, digits: Pixels, observed: Seen, place: Place, seed: int, checkpoint: Path
    ) -> FittedEM:
        preset = replace(paper_mnist(), width=self.width, features=digits[0].size)
        return MonteCarloEM(self.schedule).fit(
            preset.flow(seed).to(place.device),
            digits.reshape(len(digits), -1),
            observed.reshape(len(digits), -1),
            random_state=seed,
            progress=place.progress,
            checkpoint=checkpoint,
        )
