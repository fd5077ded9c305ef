"""Test digits with pixels hidden, as flat rows, and what completions of them come to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import Mechanism
from plmcmc.experiments.pictures import as_bytes, covered
from plmcmc.experiments.sources import Digits
from plmcmc.statistics import reconstruction_rmse

Rows = NDArray[np.floating]
# Digits that pictures show.
SHOWN = 10


class HiddenDigits(NamedTuple):
    """Digits to complete.

    Attributes:
        truth: `(digits, pixels)` in [0, 1].
        observed: bool, True = seen.
        low: least value of each pixel in the training set.
        high: largest.
        typical: each pixel's mean there.
        side: height and width of a digit.
    """

    truth: Rows
    observed: NDArray[np.bool_]
    low: Rows
    high: Rows
    typical: Rows
    side: tuple[int, ...]

    @classmethod
    def of(cls, digits: Digits, count: int, hide: Mechanism, seed: int) -> HiddenDigits:
        """Return the first test digits, hidden in part."""
        images = digits.test[:count]
        rows = images.reshape(len(images), -1).astype(np.float64)
        seen = hide(images, seed).reshape(rows.shape)
        train = digits.train.reshape(len(digits.train), -1).astype(np.float64)
        return cls(rows, seen, train.min(0), train.max(0), train.mean(0), images.shape[1:])

    def within(self, values: NDArray[Any]) -> Rows:
        """Return completions `(..., digits, pixels)`, clamped to the training set's range."""
        return np.where(self.observed, self.truth, np.clip(values, self.low, self.high))

    def error(self, filled: Rows) -> float:
        """Return the mean over digits of each digit's root mean squared error (E.1)."""
        return reconstruction_rmse(self.truth, filled, ~self.observed)

    def errors(self, last: Rows, mean: Rows) -> dict[str, float]:
        """Return errors of single completions `(chains, digits, pixels)`, and of their mean."""
        typical = np.broadcast_to(self.typical, self.truth.shape)
        return {
            "RMSE of a completion": round(float(np.mean([self.error(own) for own in last])), 5),
            "RMSE of the mean": round(self.error(mean), 5),
            "RMSE of the training mean": round(self.error(typical), 5),
        }

    def images(self, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """Return rows `(..., digits, pixels)` as pictures of the first few digits."""
        few = as_bytes(rows[..., :SHOWN, :])
        return few.reshape(*few.shape[:-1], *self.side)

    def pictures(self, last: Rows, mean: Rows, progress: Rows) -> dict[str, NDArray[np.uint8]]:
        """Return all that is shown of some completions."""
        whole = self.images(self.truth)
        seen = self.observed[:SHOWN].reshape(whole.shape)
        shown = {"truth": whole, "seen": covered(whole, seen), "last": self.images(last)}
        return shown | {"mean": self.images(mean), "progress": self.images(progress)}
