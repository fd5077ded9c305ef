"""What is said of data that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class DataError(ValueError):
    """Input data are invalid."""


def place_of(where: NDArray[np.bool_], names: Sequence[str] | None = None) -> str:
    """Name the first True entry as a person would, its column by its name if it has one."""
    row, *rest = (int(i) for i in np.argwhere(where)[0])
    if len(rest) != 1:
        return f"row {row}, entry {tuple(rest)}"
    return f"row {row}, column {rest[0] if names is None else repr(names[rest[0]])}"
