"""Data of the experiments: the paper's from files, and what comes along for a smoke test."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError, load_images, load_labels
from plmcmc.experiments.study import Place

Pixels = NDArray[np.float32]
Table = NDArray[np.float64]

# scikit-learn's digits of 8 x 8, as large as MNIST's: every pixel is nine, and a rim of two around.
ENLARGED, RIM, LEVELS = 3, 2, 16
# Of its photographs every fourth pixel, down and across.
SHRUNK = 4
# Tables that come with scikit-learn, and how many of their rows a smoke test takes.
EMBEDDED, ROWS = ("wine", "diabetes"), 60
# What a file of one of the paper's tables is.
FORM = "a header, then rows of numbers with commas between"


# The four files of MNIST, and where each may be.
HALVES, KINDS = ("train", "t10k"), {"images-idx3": load_images, "labels-idx1": load_labels}
FOLDERS, ENDS = ("mnist/", "MNIST/raw/", ""), (".gz", "")


class Digits(NamedTuple):
    """Digits `(rows, 28, 28)` in [0, 1], and what they show."""

    train: Pixels
    train_labels: NDArray[np.int64]
    test: Pixels
    test_labels: NDArray[np.int64]


def mnist_files(place: Place) -> list[Path]:
    """Return where the four files of MNIST are: images, then labels, of each half."""
    names = [f"{half}-{kind}-ubyte" for half in HALVES for kind in KINDS]
    return place.find_all(
        [[f"{folder}{name}{end}" for folder in FOLDERS for end in ENDS] for name in names]
    )


def mnist(place: Place) -> Digits:
    """Return MNIST, from the four files that it comes in."""
    readers = [*KINDS.values()] * len(HALVES)
    parts = [read(path) for read, path in zip(readers, mnist_files(place), strict=True)]
    train, train_labels, test, test_labels = parts
    return Digits(_shares(train, 255), train_labels, _shares(test, 255), test_labels)


def embedded_digits(*, large: bool = True) -> Digits:
    """Return scikit-learn's digits, as large as MNIST's or as they are; a quarter is for tests."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    shares = _shares(found.images[..., None], LEVELS)
    shares = enlarged(shares) if large else shares
    labels, cut = found.target.astype(np.int64), len(shares) * 3 // 4
    return Digits(shares[:cut], labels[:cut], shares[cut:], labels[cut:])


def cifar_file(place: Place) -> Path:
    """Return where the test images of CIFAR-10 are."""
    return place.find("cifar10/test.npy", "test.npy")


def cifar(place: Place, count: int) -> Pixels:
    """Return the first test images of CIFAR-10, `(rows, 32, 32, 3)` of integers 0 to 255."""
    return load_images(cifar_file(place), first=count).astype(np.float32)


def faces_folder(place: Place) -> Path:
    """Return where faces are: an archive of pictures, or the pictures."""
    return place.find("faces64")


def faces(place: Place, skip: int, count: int) -> Pixels:
    """Return some faces, `(rows, 64, 64, 3)` of integers 0 to 255, after those to skip.

    Raises:
        DataError: if there are not so many.
    """
    folder = faces_folder(place)
    path = next(iter(sorted(folder.glob("*.zip"))), folder)
    images = load_images(path, first=skip + count)[skip:]
    if len(images) < count:
        raise DataError(f"{path}: expected {skip + count} pictures; found {skip + len(images)}")
    return images.astype(np.float32)


def embedded_photographs(count: int, side: int, seed: int = 0) -> Pixels:
    """Return square patches of scikit-learn's two photographs, integers 0 to 255."""
    from sklearn.datasets import load_sample_images

    photographs: Any = load_sample_images()
    source = np.random.default_rng(seed)
    patches = []
    for number in range(count):
        large = photographs.images[number % len(photographs.images)]
        # Smaller, so that a patch shows something.
        image = large[SHRUNK // 2 :: SHRUNK, SHRUNK // 2 :: SHRUNK]
        top, left = (source.integers(length - side + 1) for length in image.shape[:2])
        patches.append(image[top : top + side, left : left + side])
    return np.stack(patches).astype(np.float32)


def enlarged(digits: Pixels) -> Pixels:
    """Return digits of 8 x 8 as large as MNIST's."""
    large = digits.repeat(ENLARGED, 1).repeat(ENLARGED, 2)
    return np.pad(large, ((0, 0), (RIM, RIM), (RIM, RIM)))


def uci_names(name: str) -> tuple[str, str]:
    """Return the names that a file of one of the paper's tables may have."""
    return f"uci/{name}.csv", f"{name}.csv"


def uci(name: str, place: Place) -> Table:
    """Return one of the paper's tables, from a CSV file with a header.

    Raises:
        DataError: naming the file, and the line and column of what is no number.
    """
    path = place.find(*uci_names(name))
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(_rows(path, csv.reader(file)))
    except (UnicodeDecodeError, csv.Error) as problem:
        raise DataError(f"{path}: expected {FORM}; it cannot be read as such: {problem}") from None
    if not rows:
        raise DataError(f"{path}: expected {FORM}; it has no rows")
    return np.array(rows)


def _rows(path: Path, lines: Any) -> Iterator[list[float]]:
    """Yield the numbers of every line below the header."""
    header = next(lines, [])
    for line in lines:
        if not "".join(line).strip() and len(line) < 2:
            continue
        where = f"{path}, line {lines.line_num}"
        if len(line) != len(header):
            raise DataError(
                f"{where}: expected {len(header)} values, as in the header; got {len(line)}. The "
                f"file is {FORM}"
            )
        yield [_number(cell, where, column) for column, cell in enumerate(line, 1)]


def _number(cell: str, where: str, column: int) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"{where}, column {column}: expected a number; got {cell[:40]!r}. The file is {FORM}"
        )
    return number


def embedded_table(name: str) -> Table:
    """Return the first rows of a table that comes with scikit-learn."""
    from sklearn import datasets

    rows = getattr(datasets, f"load_{name}")().data
    # Of all classes: tables are sorted by them.
    return np.asarray(rows, dtype=np.float64)[:: max(1, len(rows) // ROWS)][:ROWS]


def _shares(images: NDArray, largest: int) -> Pixels:
    return (images[..., 0] / largest).astype(np.float32)
