"""What completes digits in Table 1: each is trained on incomplete ones, then asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plmcmc.baselines import MisganImputer
from plmcmc.data import Incomplete, observed_moments
from plmcmc.experiments.algorithm1 import last_completions
from plmcmc.experiments.convergence import convergence_of
from plmcmc.experiments.digits.incomplete_flow import FlowOfHoledDigits, Seen
from plmcmc.experiments.sources import Pixels
from plmcmc.experiments.study import Place
from plmcmc.flows import Preprocessed, Whiten
from plmcmc.posterior import condition, methods
from plmcmc.training import EMSchedule, MonteCarloEM, paper_mnist
from plmcmc.training.completed import observed_range

# Pixels that are hardly ever on would be the largest of all when whitened.
FLOOR = 0.05
# Of our chains: turns of a trajectory, and trajectories that tune a round of training. On smoothed
# digits a metric for each costs more than it gains.
TURNS, TUNING = 12, 3


@dataclass(frozen=True)
class Budget:
    """How much work goes into each; defaults are the paper's (E.1), and what ours needs.

    Attributes:
        width: units of the flows' hidden layers.
        epochs: of the paper's training, with an E-step after every twentieth of them.
        proposals: of the paper's chains, in training and in tests.
        chains: of a digit in the paper's tests.
        misgan_epochs: of MisGAN's training.
        misgan_channels: of its widest convolutions.
        our_epochs: of our training.
        our_falling: share of them, the last, in which the learning rate falls to nothing.
        our_every: epochs between two rounds of our chains.
        our_trajectories: of each chain in a round, after those that tune it.
        our_chains: of a digit in our tests.
        our_warmup: trajectories of each before its draws.
        our_draws: of each, every other trajectory.
        precision: that flows compute in.
        compiled: let torch compile training's steps.
    """

    width: int = 1000
    epochs: int = 1000
    proposals: int = 2000
    chains: int = 10
    misgan_epochs: int = 500
    misgan_channels: int = 64
    our_epochs: int = 200
    our_falling: float = 0.2
    our_every: int = 2
    our_trajectories: int = 1
    our_chains: int = 2
    our_warmup: int = 120
    our_draws: int = 40
    precision: str = "float32"
    compiled: bool = False


@dataclass
class Filler(ABC):
    """Completes digits; `told` is what else is known of it, `asks` what it takes of a budget."""

    asks: ClassVar[Sequence[str]] = ()
    budget: Budget
    place: Place
    seed: int
    checkpoint: Path

    def __post_init__(self) -> None:
        self.told: dict[str, Any] = {}

    @abstractmethod
    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Learn from digits `(rows, height, width)` with holes."""

    @abstractmethod
    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Iterator[tuple[str, NDArray]]:
        """Yield completed digits, and what kind of completion they are."""


class Mean(Filler):
    """Every missing pixel at the mean of those seen."""

    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Find the means."""
        self.mean = np.where(observed, digits, 0).sum(0) / observed.sum(0).clip(1)

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Iterator[tuple[str, NDArray]]:
        """Yield the digits with means."""
        del seed
        yield "", np.where(observed, digits, self.mean)


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
        self.schedule, self.flow = training.schedule, found.flow
        self.range = _range(_flat(digits), _flat(observed))
        self.told["accepted in training"] = found.acceptance.round(4).tolist()

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Iterator[tuple[str, NDArray]]:
        """Yield every chain's last completion, and their average."""
        rows, seen = _flat(digits), _flat(observed)
        values = last_completions(
            self.flow,
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
        yield from _as_images(np.where(seen, rows, values), digits.shape)


class Ours(Filler):
    """The same flow with Hamiltonian chains on the holes, in training and after."""

    asks = (
        "width",
        "precision",
        "compiled",
        *(own.name for own in fields(Budget) if own.name.startswith("our_")),
    )

    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Train by Monte Carlo EM whose chains go on from round to round."""
        budget, rows, seen = self.budget, _flat(digits), _flat(observed)
        # Before training, whose first holes are drawn in its own units.
        moments = observed_moments(Incomplete.of(rows, seen), floor=FLOOR)
        whitened = (rows - moments.mean.numpy()) / moments.scale.numpy()
        preset = replace(paper_mnist(), width=budget.width, features=rows.shape[1])
        schedule = EMSchedule(
            epochs=budget.our_epochs,
            every=budget.our_every,
            proposals=budget.our_trajectories,
            copies=1,
            batch_size=500,
            optimizer="adamw",
            learning_rate=3e-4,
            falling=budget.our_falling,
            clip=10.0,
            noise=0.1,
            precision=budget.precision,
            compiled=budget.compiled,
            method=methods.DataHamiltonian(turns=TURNS, tuning=TUNING),
            whiten=False,
            # A draw below 0 that is put to 0 raises the mean, which the next round learns: where
            # little is seen, means climb from round to round.
            clamp=False,
        )
        fitted = MonteCarloEM(schedule).fit(
            preset.flow(self.seed).to(self.place.device),
            whitened,
            seen,
            random_state=self.seed,
            progress=self.place.progress,
            checkpoint=self.checkpoint,
        )
        whiten = Whiten(*moments).to(self.place.device)
        self.flow, self.range = Preprocessed([whiten], fitted.flow).eval(), _range(rows, seen)
        self.told["accepted in training"] = [round(rate, 4) for rate in fitted.acceptance]

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Iterator[tuple[str, NDArray]]:
        """Yield the chains' last draws, and the mean of all draws."""
        rows, seen, budget = _flat(digits), _flat(observed), self.budget
        options = {"precision": budget.precision, "compiled": budget.compiled}
        draws = condition(self.flow, rows, seen, **options).sample(
            budget.our_draws,
            thin=2,
            chains=budget.our_chains,
            warmup=budget.our_warmup,
            method=methods.DataHamiltonian(turns=TURNS),
            random_state=seed,
            progress=self.place.progress,
        )
        self.told.setdefault("share at R-hat 1.1 or less", []).append(
            convergence_of(draws)["share at R-hat 1.1 or less"]
        )
        last = np.clip(draws.values[:, -1], *self.range)
        average = np.clip(draws.mean(), *self.range)
        for values in last:
            yield ", single", np.where(seen, rows, values).reshape(digits.shape)
        yield ", average", np.where(seen, rows, average).reshape(digits.shape)


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
        self.fitted = imputer.fit(np.where(observed, digits, 0), observed)
        self.told["epochs"] = self.budget.misgan_epochs

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Iterator[tuple[str, NDArray]]:
        """Yield the one completion that it has."""
        yield "", self.fitted.fill(np.where(observed, digits, 0), observed, random_state=seed)


FILLERS: dict[str, type[Filler]] = {
    "mean": Mean,
    "PL-MCMC": Paper,
    "plmcmc": Ours,
    "MisGAN": Misgan,
}


def _flat(images: NDArray) -> NDArray:
    return images.reshape(len(images), -1)


def _range(rows: NDArray, seen: Seen) -> tuple[NDArray, NDArray]:
    """Return the least and largest values seen of each pixel, within which completions stay."""
    low, high = observed_range(Incomplete.of(rows, seen))
    return low.numpy(), high.numpy()


def _as_images(draws: NDArray, shape: tuple[int, ...]) -> Iterator[tuple[str, NDArray]]:
    for values in draws:
        yield ", single", values.reshape(shape)
    yield ", average", draws.mean(0).reshape(shape)
