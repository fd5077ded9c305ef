"""What it takes to complete digits in Table 1, and how much work goes into it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from plmcmc.data import Incomplete
from plmcmc.experiments.digits.incomplete_flow import Seen
from plmcmc.experiments.sources import Pixels
from plmcmc.experiments.study import Place
from plmcmc.training.completed import observed_range


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
        our_noise: deviation that our digits are smoothed by, whitened.
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
    our_noise: float = 0.1
    our_every: int = 2
    our_trajectories: int = 1
    our_chains: int = 4
    our_warmup: int = 60
    our_draws: int = 20
    precision: str = "float32"
    compiled: bool = False


class Completed(NamedTuple):
    """Digits completed in one or more ways, by what each is called, and what else is known."""

    ways: Iterable[tuple[str, NDArray]]
    told: Mapping[str, float] = {}


@dataclass
class Filler(ABC):
    """Completes digits; `asks` is what it takes of a budget.

    Attributes:
        trained: what `fit` came to, all that completions depend on but for a seed.
        told: what else is known of its training.
    """

    asks: ClassVar[Sequence[str]] = ()
    budget: Budget
    place: Place
    seed: int
    checkpoint: Path
    trained: Any = field(init=False)
    told: dict[str, Any] = field(init=False, default_factory=dict)

    @abstractmethod
    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Learn from digits `(rows, height, width)` with holes."""

    @abstractmethod
    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Completed:
        """Complete digits of which not all was observed."""


def flat(images: NDArray) -> NDArray:
    """Return images as rows of pixels."""
    return images.reshape(len(images), -1)


def range_of(rows: NDArray, seen: Seen) -> tuple[NDArray, NDArray]:
    """Return the least and largest values seen of each pixel, within which completions stay."""
    low, high = observed_range(Incomplete.of(rows, seen))
    return low.numpy(), high.numpy()
