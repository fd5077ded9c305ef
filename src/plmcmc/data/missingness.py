"""Mechanisms that decide which entries of a data set are seen.

Every mechanism is called with the complete data `x` of shape (rows, *event) and returns a bool
array of the same shape, True where the entry is seen. Images are (rows, height, width) or
(rows, channels, height, width), and all channels of a pixel are seen or missing together.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np

from plmcmc.data.images import channel_axis

RandomState = int | np.random.Generator | None
Shape = tuple[int, int, int]
Pair = tuple[np.ndarray, np.ndarray]

# What each parameter must satisfy, the same in words, and what to do otherwise.
_SHARE = (
    lambda value: 0 <= value <= 1,
    "in [0, 1]",
    "give a fraction, not a count or a percentage",
)
_LENGTH = (lambda value: value >= 1 and value % 1 == 0, "to be a whole number >= 1", "give pixels")
_RULES = {
    "rate": _SHARE,
    "always_seen": _SHARE,
    "strength": (np.isfinite, "to be finite", "give a number such as 2.0"),
    "block": _LENGTH,
    "size": _LENGTH,
    "phase": (
        lambda value: value in (0, 1),
        "to be 0 or 1",
        "0 means that the top left block is seen",
    ),
    "exact": (lambda value: value in (0, 1), "to be True or False", "False is one side for all"),
}


class Mechanism(Protocol):
    """Any function that decides which entries of `x` are observed."""

    def __call__(self, x: np.ndarray, random_state: RandomState = None) -> np.ndarray:
        """Return a bool array of `x`'s shape, True where the entry is seen."""
        ...


class CheckedParameters:
    """Refuses parameters that break the rule of their name."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            holds, expected, remedy = _RULES[name]
            number = isinstance(value, Real) and bool(holds(value))
            require(number, f"{name} {expected}", repr(value), remedy)


@dataclass(frozen=True)
class Independent(CheckedParameters):
    """Every entry is missing with probability `rate`, independently of its value.

    >>> Independent(0.5)(np.zeros((1, 4)), random_state=0)
    array([[ True, False, False, False]])
    """

    rate: float

    def __call__(self, x: np.ndarray, random_state: RandomState = None) -> np.ndarray:
        """Return which entries of `x` are seen."""
        # Written so that `default_rng(seed).random(x.shape) < rate` is missing, bit for bit.
        return np.random.default_rng(random_state).random(x.shape) >= self.rate


class _OnImages(CheckedParameters, ABC):
    """Check the images and spread over their channels what a subclass says of the pixels."""

    def __call__(self, x: np.ndarray, random_state: RandomState = None) -> np.ndarray:
        expected = "images of shape (rows, height, width), with channels first or last"
        remedy = "reshape first, e.g. digits to (rows, 28, 28)"
        require(x.ndim in (3, 4) and 0 not in x.shape[1:], expected, f"shape {x.shape}", remedy)
        channels = channel_axis(x.shape)
        height, width = x.shape[1:3] if channels == 3 else x.shape[-2:]
        pixels = self._seen_pixels((len(x), height, width), np.random.default_rng(random_state))
        spread = pixels if channels is None else np.expand_dims(pixels, channels)
        return np.broadcast_to(spread, x.shape).copy()

    @abstractmethod
    def _seen_pixels(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        """Return which pixels are seen, of shape `shape` or (1, height, width)."""


@dataclass(frozen=True)
class Patch(_OnImages):
    """Random rectangles are removed until each image misses `round(rate * height * width)` pixels.

    Sides are uniform up to half of the image's, and a rectangle may extend beyond the border, so
    that it covers every pixel with the same probability. Of the last one, only whole rows and part
    of one row are removed.

    >>> (~Patch(0.25)(np.zeros((3, 8, 8)), random_state=0)).sum(axis=(1, 2))
    array([16, 16, 16])
    """

    rate: float

    def _seen_pixels(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        missing = np.zeros(shape, dtype=bool)
        # Blocks of images keep the temporaries of the work small.
        for start in range(0, len(missing), 4096):
            _remove_rectangles(missing[start : start + 4096], self.rate, rng)
        # The last rectangle always keeps its upper rows: half of the images are turned around.
        turned = rng.random(len(missing)) < 0.5
        missing[turned] = missing[turned, ::-1, ::-1]
        return ~missing


@dataclass(frozen=True)
class SquareObservation(_OnImages):
    """Only one randomly placed square of each image is observed.

    Its side is one of the two integers around `sqrt((1 - rate) * height * width)`, drawn such that
    the expected share of missing pixels is exactly `rate`; with `exact=False`, always the nearer
    one.

    >>> SquareObservation(0.75)(np.zeros((2, 8, 8)), random_state=0).sum(axis=(1, 2))
    array([16, 16])
    >>> SquareObservation(0.8, exact=False)(np.zeros((2, 8, 8)), random_state=0).sum(axis=(1, 2))
    array([16, 16])
    """

    rate: float
    exact: bool = True

    def _seen_pixels(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        rows, height, width = shape
        area, shortest = (1 - self.rate) * height * width, min(height, width)
        expected = f"a rate whose square fits into {height} x {width} pixels"
        remedy = f"use a rate of at least {1 - shortest**2 / (height * width):.6g}"
        require(area <= shortest**2 * (1 + 1e-9), expected, self.rate, remedy)
        side = np.full(rows, min(round(area**0.5), shortest))
        if self.exact:
            smaller = min(int(area**0.5), shortest - 1)
            side = smaller + (rng.random(rows) < (area - smaller**2) / (2 * smaller + 1))
        corners = (rng.integers(height - side + 1), rng.integers(width - side + 1))
        return _rectangles(shape, corners, (side, side))


@dataclass(frozen=True)
class Checkerboard(_OnImages):
    """Blocks of `block` x `block` pixels alternate; with phase 0 the top left one is observed.

    >>> Checkerboard()(np.zeros((1, 2, 3)))
    array([[[ True, False,  True],
            [False,  True, False]]])
    """

    block: int = 1
    phase: int = 0

    def _seen_pixels(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        row, column = np.ogrid[: shape[1], : shape[2]]
        return ((row // self.block + column // self.block) % 2 == self.phase)[None]


@dataclass(frozen=True)
class CentreSquare(_OnImages):
    """A square of `size` x `size` pixels in the middle is missing.

    >>> CentreSquare(2)(np.zeros((1, 3, 4)))[0, 0]
    array([ True, False, False,  True])
    """

    size: int

    def _seen_pixels(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        _, height, width = shape
        expected, remedy = f"size to fit into {height} x {width} pixels", "use a smaller size"
        require(self.size <= min(height, width), expected, self.size, remedy)
        side = np.array([self.size])
        return ~_rectangles(shape, ((height - side) // 2, (width - side) // 2), (side, side))


@dataclass(frozen=True)
class RightHalf(_OnImages):
    """The right half of the columns, from `width // 2` on, is missing.

    >>> RightHalf()(np.zeros((1, 1, 5)))
    array([[[ True,  True, False, False, False]]])
    """

    def _seen_pixels(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        return np.broadcast_to(np.arange(shape[2]) < shape[2] // 2, (1, *shape[1:]))


def require(holds: bool, expected: str, got: object, remedy: str) -> None:
    """Raises ValueError with the three parts of the message unless `holds`."""
    if not holds:
        raise ValueError(f"expected {expected}, got {got}; {remedy}")


def _rectangles(shape: Shape, corners: Pair, sides: Pair) -> np.ndarray:
    """Return (rows, height, width), True inside of each row's rectangle."""
    vertical, horizontal = (
        (np.arange(length) >= start[:, None]) & (np.arange(length) < (start + side)[:, None])
        for length, start, side in zip(shape[1:], corners, sides, strict=True)
    )
    return vertical[:, :, None] & horizontal[:, None, :]


def _random_rectangles(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """Return (rows, height, width), True inside of one random rectangle per row."""
    rows, height, width = shape
    tall, wide = (rng.integers(1, (side + 1) // 2 + 1, rows) for side in (height, width))
    corners = (rng.integers(1 - tall, height), rng.integers(1 - wide, width))
    return _rectangles(shape, corners, (tall, wide))


def _remove_rectangles(missing: np.ndarray, rate: float, rng: np.random.Generator) -> None:
    """Adds rectangles to each image of `missing`, in place, until it has the share `rate`."""
    rows, height, width = missing.shape
    flat = missing.reshape(rows, height * width)
    room = np.full(rows, round(rate * height * width))
    active = np.flatnonzero(room)
    while active.size:
        fresh = _random_rectangles((active.size, height, width), rng).reshape(active.size, -1)
        fresh &= ~flat[active]
        added = np.count_nonzero(fresh, axis=1)
        over = added > room[active]
        # Row by row from the top, so that what is kept of the rectangle stays connected.
        fresh[over] &= np.cumsum(fresh[over], axis=1) <= room[active[over], None]
        flat[active] |= fresh
        room[active] = np.maximum(room[active] - added, 0)
        active = active[room[active] > 0]
