"""Images in strips, one below the other, each with its name: as the paper shows completions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plmcmc.experiments.cache import write_figure

Bytes = NDArray[np.uint8]
# White between images, in the sheet's own pixels; the least height of an image; how wide a sheet is
# at least, and the height up to which small images are enlarged for that.
GAP, LEAST, WIDE, LARGE = 3, 56, 480, 112
COVER = (110, 140, 180)
DOTS, FONT = 100, 9
# Inches that a letter takes, a line of them, and those around the sheet.
LETTER, LINE, RIM = 0.075, 0.18, 0.08


def as_bytes(images: NDArray[Any], largest: float = 1.0) -> Bytes:
    """Return images `(..., height, width[, channels])` of values from 0 to `largest` as shown.

    What is not finite is black; what is beyond the range, at its end.

    Example:
        >>> as_bytes(np.array([[-1.0, 0.5, 2.0, np.nan]]))
        array([[  0, 128, 255,   0]], dtype=uint8)
    """
    shares = np.nan_to_num(images, nan=0.0, posinf=largest, neginf=0.0) / largest
    return (shares.clip(0, 1) * 255).round().astype(np.uint8)


def covered(images: Bytes, observed: NDArray[np.bool_]) -> Bytes:
    """Return images in colour, with one that no grey is where nothing was seen.

    Args:
        images: `(images, height, width[, 3])`.
        observed: bool, of the same shape.
    """
    seen = observed[..., None] if observed.ndim == 3 else observed
    return np.where(seen, _in_colour(images), np.array(COVER, np.uint8))


def strips_of(images: Bytes, across: int) -> list[tuple[str, Bytes]]:
    """Return many images as strips of so many, without names."""
    return [("", images[cut : cut + across]) for cut in range(0, len(images), across)]


def write_strips(
    path: Path,
    strips: Sequence[tuple[str, Bytes]],
    columns: Sequence[str] = (),
    unit: str = "",
) -> Path:
    """Write strips of images `(images, height, width[, channels])`, names to their left.

    Args:
        path: a PNG file.
        strips: names and images, one strip below the other.
        columns: names above the images.
        unit: of those names: stands above them.

    Raises:
        ValueError: if there is nothing to show, or images differ in size.
    """
    strips = [(name, _in_colour(images)) for name, images in strips]
    shapes = {images.shape[1:] for _, images in strips}
    if len(shapes) != 1:
        raise ValueError(f"expected strips of images of one size; got {sorted(shapes)}")
    from matplotlib.figure import Figure

    sheet, down, right = _sheet([images for _, images in strips])
    # A name may have several lines.
    left = RIM + LETTER * max(len(line) for name, _ in strips for line in name.split("\n"))
    above = RIM + LINE * (bool(columns) + bool(unit))
    height, width = (side / DOTS for side in sheet.shape[:2])
    size = (left + width + RIM, above + height + RIM)
    figure = Figure(figsize=size, dpi=DOTS)
    axes = figure.add_axes(
        (left / size[0], RIM / size[1], width / size[0], height / size[1]),
        xticks=_middles(len(columns), right),
        xticklabels=columns,
        yticks=_middles(len(strips), down),
        yticklabels=[name for name, _ in strips],
    )
    axes.imshow(sheet, interpolation="nearest", aspect="auto")
    axes.tick_params(length=0, labelsize=FONT, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    axes.set_title(unit, fontsize=FONT, pad=2)
    write_figure(path, figure)
    return path


def _middles(count: int, step: int) -> list[float]:
    return [GAP + step * (number + 0.5) for number in range(count)]


def _in_colour(images: Bytes) -> Bytes:
    grey = images.ndim == 3
    return np.repeat(images[..., None], 3, -1) if grey else images


def _sheet(strips: Sequence[Bytes]) -> tuple[Bytes, int, int]:
    """Return all strips as one picture, and how far images are apart, down and to the right."""
    height, width = strips[0].shape[1:3]
    across = max(len(images) for images in strips)
    wide = min(-(-WIDE // (across * width)), LARGE // height)
    times = max(1, -(-LEAST // height), wide)
    down, right = times * height + GAP, times * width + GAP
    sheet = np.full((down * len(strips) + GAP, right * across + GAP, 3), 255, np.uint8)
    for row, images in enumerate(strips):
        for column, image in enumerate(images):
            top, left = GAP + row * down, GAP + column * right
            large = image.repeat(times, 0).repeat(times, 1)
            sheet[top : top + times * height, left : left + times * width] = large
    return sheet, down, right
