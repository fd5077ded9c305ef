"""Data of the experiments: the paper's from files, and what comes along for a smoke test."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import load_images, load_labels
from plmcmc.experiments.study import Place

Pixels = NDArray[np.float32]
Table = NDArray[np.float64]

# scikit-learn's digits of 8 x 8, as large as MNIST's: every pixel is nine, and a rim of two around.
ENLARGED, RIM, LEVELS = 3, 2, 16
# Tables that come with scikit-learn, and how many of their rows a smoke test takes.
EMBEDDED, ROWS = ("wine", "diabetes"), 60


class Digits(NamedTuple):
    """Digits `(rows, 28, 28)` in [0, 1], and what they show."""

    train: Pixels
    train_labels: NDArray[np.int64]
    test: Pixels
    test_labels: NDArray[np.int64]


def mnist(place: Place) -> Digits:
    """Return MNIST, from the four files that it comes in."""
    parts = []
    for half in ("train", "t10k"):
        for kind, read in (("images-idx3", load_images), ("labels-idx1", load_labels)):
            name = f"{half}-{kind}-ubyte"
            folders = ("mnist/", "MNIST/raw/", "")
            path = place.find(*(f"{own}{name}{end}" for own in folders for end in (".gz", "")))
            parts.append(read(path))
    train, train_labels, test, test_labels = parts
    return Digits(_shares(train, 255), train_labels, _shares(test, 255), test_labels)


def embedded_digits() -> Digits:
    """Return scikit-learn's digits; a quarter is for tests."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    large = found.images.repeat(ENLARGED, 1).repeat(ENLARGED, 2)
    shares = _shares(np.pad(large, ((0, 0), (RIM, RIM), (RIM, RIM)))[..., None], LEVELS)
    labels, cut = found.target.astype(np.int64), len(shares) * 3 // 4
    return Digits(shares[:cut], labels[:cut], shares[cut:], labels[cut:])


def uci(name: str, place: Place) -> Table:
    """Return one of the paper's tables, from a CSV file with a header."""
    path = place.find(f"uci/{name}.csv", f"{name}.csv")
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)


def embedded_table(name: str) -> Table:
    """Return the first rows of a table that comes with scikit-learn."""
    from sklearn import datasets

    rows = getattr(datasets, f"load_{name}")().data
    # Of all classes: tables are sorted by them.
    return np.asarray(rows, dtype=np.float64)[:: max(1, len(rows) // ROWS)][:ROWS]


def _shares(images: NDArray, largest: int) -> Pixels:
    return (images[..., 0] / largest).astype(np.float32)
