"""Data with missing entries: `Incomplete` holds the observed values and where they are.

In: arrays with holes. Out: `Incomplete`.
"""

from plmcmc.data.images import load_images, load_labels
from plmcmc.data.incomplete import DataError, Incomplete
from plmcmc.data.marginals import Marginal, Regions
from plmcmc.data.missingness import (
    CentreSquare,
    Checkerboard,
    Independent,
    Mechanism,
    Patch,
    RightHalf,
    SquareObservation,
)
from plmcmc.data.schema import Schema
from plmcmc.data.table_missingness import MissingAtRandom, MissingNotAtRandom
from plmcmc.data.whitening import Moments, observed_moments

__all__ = [
    "CentreSquare",
    "Checkerboard",
    "DataError",
    "Incomplete",
    "Independent",
    "Marginal",
    "Mechanism",
    "MissingAtRandom",
    "MissingNotAtRandom",
    "Moments",
    "Patch",
    "Regions",
    "RightHalf",
    "Schema",
    "SquareObservation",
    "load_images",
    "load_labels",
    "observed_moments",
]
