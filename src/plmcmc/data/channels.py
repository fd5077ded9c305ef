"""Where images have their channels: files put them last, flows first."""

from __future__ import annotations

from collections.abc import Sequence

# How many an image may have.
CHANNELS = (1, 3)


def channel_axis(shape: Sequence[int]) -> int | None:
    """Return the axis of the channels of rows of images; None where there is none.

    Of `(rows, 3, height, 3)` the first.
    """
    if len(shape) != 4:
        return None
    return 3 if shape[3] in CHANNELS and shape[1] not in CHANNELS else 1
