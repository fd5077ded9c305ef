"""Grey images as the networks of the baselines take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.data.incomplete import Array, DataError, checked


def checked_images(images: Any, observed: Any = None) -> tuple[Array, NDArray[np.bool_]]:
    """Return images `(rows, height, width)` and which pixels are seen, or raise `DataError`.

    NaN marks the holes where `observed` is not given; seen pixels must lie in [0, 1].
    """
    values, seen = checked(images, observed)
    if values.ndim != 3:
        raise DataError(
            f"images must be grey, shape (rows, height, width); got shape {values.shape}: reshape "
            f"them first, e.g. digits to (rows, 28, 28)"
        )
    outside = seen & ~((values >= 0) & (values <= 1))
    if outside.any():
        row, *pixel = (int(index) for index in np.argwhere(outside)[0])
        raise DataError(
            f"pixels must lie in [0, 1]; image {row} has {values[row, *pixel]} at {tuple(pixel)}: "
            f"divide by 255 where they are bytes"
        )
    return values, seen


def as_batch(values: NDArray[Any], device: torch.device | str) -> Tensor:
    """Return images or masks `(rows, height, width)` as `(rows, 1, height, width)` on a device.

    Pixels become float32; masks stay boolean.
    """
    # A copy: torch warns of arrays that must not be written to.
    own = np.array(values, bool if values.dtype == bool else np.float32)
    return torch.as_tensor(own, device=device)[:, None]


def device_for(images: Any, device: torch.device | str | None) -> torch.device:
    """Return the device asked for; else the one that the images are on."""
    if device is not None:
        return torch.device(device)
    return images.device if isinstance(images, Tensor) else torch.device("cpu")
