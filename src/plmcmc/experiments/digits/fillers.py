"""What completes digits in Table 1: each is trained on incomplete ones, then asked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plmcmc.baselines import MisganImputer
from plmcmc.experiments.algorithm1 import last_completions
from plmcmc.experiments.digits.filler import Completed, Filler, flat, range_of
from plmcmc.experiments.digits.incomplete_flow import FlowOfHoledDigits, Seen
from plmcmc.experiments.digits.our_filler import Ours
from plmcmc.experiments.sources import Pixels


class Mean(Filler):
    """Every missing pixel at the mean of those seen."""

    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Find the means."""
        self.trained = np.where(observed, digits, 0).sum(0) / observed.sum(0).clip(1)

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Completed:
        """Return the digits with means."""
        del seed
        return Completed([("", np.where(observed, digits, self.trained))])


class Paper(Filler):
    """Algorithm 2 and Algorithm 1 at the paper's settings."""

    asks = ("width", "epochs", "proposals", "chains", "precision", "compiled")

    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Train by Monte Carlo EM."""
        budget = self.budget
        training = FlowOfHoledDigits(
            width=budget.width,
            epochs=budget.epochs,
            every=max(1, budget.epochs // 20),
            later=budget.epochs // 2,
            proposals=budget.proposals,
            precision=budget.precision,
            compiled=budget.compiled,
        )
        found = training.trained(digits, observed, self.place, self.seed)
        self.schedule, self.trained = training.schedule, found.flow
        self.range = range_of(flat(digits), flat(observed))
        self.told["accepted in training"] = found.acceptance.round(4).tolist()

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Completed:
        """Return every chain's last completion, and their average."""
        rows, seen = flat(digits), flat(observed)
        values = last_completions(
            self.trained,
            np.where(seen, rows, np.nan),
            self.schedule.later[0][1],
            self.schedule.start,
            self.place,
            proposals=self.budget.proposals,
            chains=self.budget.chains,
            seed=seed,
            precision=self.budget.precision,
            compiled=self.budget.compiled,
        )
        values = np.clip(values, *self.range)
        return Completed(_as_images(np.where(seen, rows, values), digits.shape))


class Misgan(Filler):
    """MisGAN, convolutional, with its imputer."""

    asks = ("misgan_epochs", "misgan_channels")

    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Train all of its networks."""
        imputer = MisganImputer(
            epochs=self.budget.misgan_epochs,
            channels=self.budget.misgan_channels,
            random_state=self.seed,
            device=self.place.device,
            progress=self.place.progress,
        )
        shown = np.where(observed, digits, 0)
        self.trained = imputer.fit(shown, observed, checkpoint=self.checkpoint)
        self.told["epochs"] = self.budget.misgan_epochs

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Completed:
        """Return the one completion that it has."""
        shown = np.where(observed, digits, 0)
        return Completed([("", self.trained.fill(shown, observed, random_state=seed))])


FILLERS: dict[str, type[Filler]] = {
    "mean": Mean,
    "PL-MCMC": Paper,
    "plmcmc": Ours,
    "MisGAN": Misgan,
}


def _as_images(draws: NDArray, shape: tuple[int, ...]) -> Iterator[tuple[str, NDArray]]:
    for values in draws:
        yield ", single", values.reshape(shape)
    yield ", average", draws.mean(0).reshape(shape)
