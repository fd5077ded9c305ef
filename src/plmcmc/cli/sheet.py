"""A sheet of images, side by side, as a PNG file."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plmcmc.disk import write

# Pixels between images, and the least height of one on the sheet.
GAP, LEAST = 2, 48
PAPER = 255


def write_sheet(path: Path, images: NDArray, levels: int, *, across: int = 8) -> Path:
    """Write images `(rows, height, width, channels)` of values 0 to `levels - 1`."""
    from PIL import Image

    rows, height, width, channels = images.shape
    shown = np.nan_to_num(images, nan=0.0).clip(0, levels - 1) * (255 / (levels - 1))
    times = max(1, -(-LEAST // height))
    shown = shown.round().astype(np.uint8).repeat(times, 1).repeat(times, 2)
    height, width, down = height * times, width * times, -(-rows // across)
    size = (down * (height + GAP) + GAP, across * (width + GAP) + GAP, channels)
    sheet = np.full(size, PAPER, np.uint8)
    for number, image in enumerate(shown):
        top = GAP + number // across * (height + GAP)
        left = GAP + number % across * (width + GAP)
        sheet[top : top + height, left : left + width] = image
    content = BytesIO()
    Image.fromarray(sheet[..., 0] if channels == 1 else sheet).save(content, "png")
    write(path, content.getvalue())
    return path
