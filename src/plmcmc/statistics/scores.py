"""How good are imputations? Squared error, CRPS and coverage against the truth."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


def nmse(
    truth: ArrayLike,
    filled: ArrayLike,
    missing: ArrayLike,
    spread: ArrayLike | None = None,
    *,
    by: Literal["row", "entry"] = "row",
) -> float:
    """Return the normalised mean squared error of the missing entries.

    Of the squares `((truth - filled) / spread)**2`, by row (the paper's Table 2) the mean over rows
    of each row's mean over its missing entries, rows without holes left out; by entry the mean
    over all missing entries. The two differ: by row, an entry that is alone missing counts most.

    Args:
        truth: `(rows, *event)`.
        filled: Same shape, the imputation; seen entries are not looked at.
        missing: bool, same shape; True = was missing.
        spread: Each column's standard deviation, shape `(*event)`; that of all of `truth` (divided
            by the number of rows) if not given.
        by: `"row"` or `"entry"`.

    Raises:
        ValueError: if shapes differ, nothing is missing, a missing entry has no finite value, or
            a column with missing entries has no spread.

    Example:
        >>> nmse([[1.0, 0.0], [3.0, 4.0]], [[1.0, 4.0], [2.0, 6.0]], [[0, 1], [1, 1]])
        2.5
    """
    if by not in ("row", "entry"):
        raise ValueError(f'by must be "row" or "entry"; got {by!r}')
    squares, holes = _squares(_numbers(truth), _numbers(filled), missing, spread)
    if by == "entry":
        return float(squares[holes].mean())
    return float(_mean_of_rows(squares, holes).mean())


def reconstruction_rmse(truth: ArrayLike, filled: ArrayLike, missing: ArrayLike) -> float:
    """Return the mean over rows of each row's root mean squared error (the paper's Table 1).

    Args:
        truth: `(rows, *event)`.
        filled: Same shape, the imputation; seen entries are not looked at.
        missing: bool, same shape; True = was missing. Rows without holes are left out.

    Raises:
        ValueError: if shapes differ, nothing is missing, or a missing entry has no finite value.

    Example:
        >>> reconstruction_rmse([[1, 0], [3, 4]], [[1, 2], [9, 4]], [[0, 1], [1, 0]])
        4.0
    """
    whole = _numbers(truth)
    squares, holes = _squares(whole, _numbers(filled), missing, np.ones(whole.shape[1:]))
    return float(np.sqrt(_mean_of_rows(squares, holes)).mean())


def crps(truth: ArrayLike, draws: ArrayLike, *, fair: bool = False) -> NDArray[np.float64]:
    """Return each entry's continuous ranked probability score, 0 at best.

    `E|X - y| - E|X - X'| / 2` of the draws' own distribution, in which X and X' may be the same
    draw: the sum over pairs is divided by the square of the number of draws.

    Args:
        truth: `(*entries)`.
        draws: `(draws, *entries)`.
        fair: leave a draw's pair with itself out, which takes two draws at least: without bias for
            the distribution that the draws came from, however few they are.

    Returns:
        `(*entries)`; NaN where the truth or a draw is.

    Example:
        >>> crps(0.0, [1.0, 3.0])
        array(1.5)
    """
    outcome, sample = _numbers(truth), _numbers(draws)
    least = 2 if fair else 1
    if sample.ndim == 0 or len(sample) < least or sample.shape[1:] != outcome.shape:
        raise ValueError(
            f"draws must have shape (draws, *truth.shape), {least} draws or more of truth's "
            f"{outcome.shape}; got {sample.shape}"
        )
    # Around the truth, so that a large offset takes no digits from the difference below.
    errors = np.sort(sample - outcome, axis=0)
    count = len(errors)
    # The i-th smallest draw is the larger one in i - 1 pairs and the smaller one in count - i.
    pairs = count * (count - 1) if fair else count**2
    weights = (2 * np.arange(1, count + 1) - count - 1) / pairs
    return np.asarray(np.abs(errors).mean(0) - np.tensordot(weights, errors, 1))


def interval(draws: ArrayLike, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper ends that one more draw lies between with probability `level`.

    The i-th smallest of n draws stands at i / (n + 1), where one more draw is below it with just
    that probability. NumPy's default is narrower: of 25 normal draws it holds .84 instead of .9
    (this .91, since ends between two draws are interpolated). Too few draws give their extremes.

    Args:
        draws: `(draws, *entries)`.
        level: between 0 and 1.

    Example:
        >>> interval(np.arange(1.0, 20.0), 0.9)
        (array(1.), array(19.))
    """
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(_numbers(draws), ends, axis=0, method="weibull")
    return np.asarray(low), np.asarray(high)


def coverage(truth: ArrayLike, low: ArrayLike, high: ArrayLike) -> float:
    """Return the share of entries of `truth` that lie in `[low, high]`, all of one shape.

    Raises:
        ValueError: if shapes differ, there is no entry, one is NaN, or an interval is upside down.

    Example:
        >>> coverage([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0], [9.0, 2.0, 2.5, 9.0])
        0.75
    """
    inside, below, above = _numbers(truth), _numbers(low), _numbers(high)
    _same_shape(inside.shape, low=below, high=above)
    if inside.size == 0:
        raise ValueError("truth is empty: no entries to compute a share of")
    if np.isnan(inside).any():
        raise ValueError("truth has NaN: leave out entries whose truth is not known")
    if not (below <= above).all():
        raise ValueError("low must not lie above high, and neither may be NaN")
    return float(((below <= inside) & (inside <= above)).mean())


def _squares(
    truth: NDArray[np.float64], filled: NDArray[np.float64], missing: Any, spread: Any
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the squared errors and the holes, `(rows, entries)`, after checking both."""
    holes = np.asarray(missing, dtype=bool)
    _same_shape(truth.shape, filled=filled, missing=holes)
    if not holes.any():
        raise ValueError("nothing is missing: no entries to compute an error of")
    if not np.isfinite(np.where(holes, truth - filled, 0.0)).all():
        raise ValueError("truth and filled must be finite wherever missing is True")
    scale = _spread(truth, spread)
    flat = holes.reshape(len(holes), -1)
    wrong = np.flatnonzero(flat.any(0) & ~((scale > 0) & np.isfinite(scale)).ravel())
    if wrong.size:
        raise ValueError(
            f"column {wrong[0]} has missing entries and a spread of {scale.ravel()[wrong[0]]}: "
            f"give a positive spread, or leave the column out"
        )
    errors = np.where(holes, truth - filled, 0.0) / np.where(holes.any(0), scale, 1.0)
    return (errors**2).reshape(flat.shape), flat


def _mean_of_rows(squares: NDArray[np.float64], holes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return each row's mean over its holes, of rows that have any."""
    count = holes.sum(1)
    sums = np.where(holes, squares, 0.0).sum(1)
    return sums[count > 0] / count[count > 0]


def _spread(truth: NDArray[np.float64], spread: Any) -> NDArray[np.float64]:
    if spread is not None:
        return np.broadcast_to(_numbers(spread), truth.shape[1:])
    # A constant column may have a deviation from rounding alone.
    return np.where(np.ptp(truth, axis=0) == 0, 0.0, truth.std(axis=0))


def _numbers(x: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(x, dtype=np.float64)


def _same_shape(shape: tuple[int, ...], **arrays: NDArray[Any]) -> None:
    for name, array in arrays.items():
        if array.shape != shape:
            raise ValueError(f"{name} must have truth's shape {shape}; got {array.shape}")
