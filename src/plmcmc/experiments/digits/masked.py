"""One digit with half of its pixels hidden: what several studies ask the flow of digits (E.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import Checkerboard
from plmcmc.experiments.algorithm1 import whitening_of
from plmcmc.experiments.digits.complete_flow import FlowOfDigits
from plmcmc.experiments.sources import Digits, embedded_digits, mnist
from plmcmc.experiments.study import Place

Numbers = NDArray[np.float64]


class Case(NamedTuple):
    """The task as the paper's chains see it: in whitened units, a row of flat pixels.

    Attributes:
        flow: the flow behind its whitening.
        mean: of each pixel.
        scale: what each pixel is divided by: its deviation, or 1 where it never varies.
        truth: the whole digit, pixels in [0, 1].
        observed: True = seen.
    """

    flow: Any
    mean: Numbers
    scale: Numbers
    truth: Numbers
    observed: NDArray[np.bool_]

    @property
    def row(self) -> Numbers:
        """The digit with its holes, whitened: one row."""
        return np.where(self.observed, (self.truth - self.mean) / self.scale, np.nan)[None]

    def pixels(self, whitened: NDArray[np.floating]) -> Numbers:
        """Return rows in the units of pixels."""
        return whitened * self.scale + self.mean

    def error(self, pixels: Numbers, other: Numbers) -> Numbers:
        """Return the root of the mean square over hidden pixels, for every row."""
        hidden = ~self.observed
        return np.sqrt(np.square(pixels[..., hidden] - other[..., hidden]).mean(-1))


@dataclass(frozen=True)
class MaskedDigit:
    """Which digit, what is hidden of it, and the flow that is asked.

    Args:
        digit: its place among the test digits.
        block: side of the checkerboard's squares, in pixels.
        flow: how the flow is trained (D.3).
        embedded: digits that come along, not MNIST's.
        every: keep one of so many pixels of each side: 1 keeps all.
    """

    digit: int = 0
    block: int = 4
    flow: FlowOfDigits = field(default=FlowOfDigits())
    embedded: bool = False
    every: int = 1

    def case(self, place: Place) -> Case:
        """Return the task, with a flow that nobody else has."""
        digits = _digits(place, self.embedded)
        train, test = (own[:, :: self.every, :: self.every] for own in (digits.train, digits.test))
        trained: Any = self.flow.trained(train, place)
        mean, scale = whitening_of(trained)
        chosen = test[[self.digit]]
        return Case(
            trained.flow,
            mean,
            scale,
            chosen.reshape(-1).astype(np.float64),
            Checkerboard(self.block)(chosen).reshape(-1),
        )


@lru_cache(maxsize=1)
def _digits(place: Place, embedded: bool) -> Digits:
    # Every part asks for them, and unpacking MNIST takes as long as a run on a GPU.
    return embedded_digits() if embedded else mnist(place)


def masked_digit(scale: str) -> MaskedDigit:
    """Return the task at a scale."""
    if scale == "full":
        # While it learns: chains ask it in float32.
        return MaskedDigit(flow=FlowOfDigits(precision="bfloat16", compiled=True))
    if scale == "laptop":
        return MaskedDigit(flow=FlowOfDigits(width=200, epochs=20))
    return MaskedDigit(flow=FlowOfDigits(width=16, epochs=2), embedded=True, every=5)
