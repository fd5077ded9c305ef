"""Flows behind their whitening: the paper's settings are in whitened units, data are not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def whitening_of(flow: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and scale that a flow's rows are whitened by, as its first step."""
    first = flow.chain[0]
    mean, scale = (own.double().cpu().numpy() for own in (first.mean, first.scale))
    return mean, scale
