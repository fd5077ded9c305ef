"""How far apart are two sets of features? The distance between Gaussians of their moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class FeatureMoments(NamedTuple):
    """Mean `(features,)` and covariance `(features, features)` of a set of features."""

    mean: Array
    covariance: Array


def feature_moments(features: ArrayLike) -> FeatureMoments:
    """Return the moments of features `(rows, features)`, in float64.

    The covariance is the unbiased one (divided by one less than the rows).

    Raises:
        ValueError: unless there are two rows or more of finite numbers.
    """
    values = np.asarray(features, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2 or values.shape[1] < 1:
        raise ValueError(
            f"features must have shape (rows, features), two rows or more; got {values.shape}"
        )
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise ValueError(f"features must be finite; those of row {row} are not: leave it out")
    return FeatureMoments(
        values.mean(0), np.cov(values, rowvar=False).reshape(2 * values.shape[1:])
    )


def frechet_distance(
    first: ArrayLike | FeatureMoments, second: ArrayLike | FeatureMoments
) -> float:
    """Return the squared Frechet distance of two sets of features, 0 if their moments agree.

    `|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))`, the squared Wasserstein distance between normal
    distributions of the sets' moments (Dowson and Landau, 1982). Of Inception's features it is the
    FID of Heusel et al. (2017); the paper's Table 1 takes those of a classifier of digits.

    Args:
        first: features `(rows, features)`, or their moments, where one set is compared often.
        second: the other set; as many features, any number of rows.

    Example:
        >>> x = np.array([[0.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 2.0]])
        >>> round(frechet_distance(x, x + [3.0, 4.0]), 6)
        25.0
    """
    from scipy.linalg import eigvalsh

    one, two = (x if isinstance(x, FeatureMoments) else feature_moments(x) for x in (first, second))
    if one.mean.shape != two.mean.shape:
        raise ValueError(
            f"both sets must have the same features; got {len(one.mean)} and {len(two.mean)}"
        )
    # (C1 C2)^(1/2) has the trace of a symmetric matrix's root, which is real, and exists where
    # features never vary: a classifier has some that are always 0.
    root = _root(one.covariance)
    shared = np.sqrt(eigvalsh(root @ two.covariance @ root).clip(min=0)).sum()
    apart = np.square(one.mean - two.mean).sum()
    distance = apart + np.trace(one.covariance) + np.trace(two.covariance) - 2 * shared
    # Rounding may leave a little less than nothing.
    return max(0.0, float(distance))


def _root(covariance: Array) -> Array:
    """Return the symmetric root of a covariance, which may be singular."""
    from scipy.linalg import eigh

    values, vectors = eigh(covariance)
    return (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
