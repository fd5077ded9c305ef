"""One answer from many completed data sets: Rubin's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Pooled:
    """The result of `pool`; every array has the shape of one estimate, `()` or `(k,)`.

    Attributes:
        estimate: Mean of the estimates.
        standard_error: Root of the total variance, `within + (1 + 1/m) between`.
        df: Degrees of freedom of the t distribution that the interval comes from.
        low: Lower end of the interval.
        high: Upper end of the interval.
        within: Mean of the variances: the uncertainty with complete data.
        between: Variance of the estimates: the uncertainty added by missing values.
        share_between: Share of the total variance due to missing values (lambda).
        fraction_missing: Fraction of missing information (fmi): lambda, corrected for `df`.
        names: Of the estimates, if they came as pandas Series.
    """

    estimate: Numbers
    standard_error: Numbers
    df: Numbers
    low: Numbers
    high: Numbers
    within: Numbers
    between: Numbers
    share_between: Numbers
    fraction_missing: Numbers
    names: tuple[str, ...] | None = None

    def summary(self) -> pd.DataFrame:
        """Return one line per estimate: s.e., interval, degrees of freedom, p-value, fmi."""
        import pandas as pd

        columns = {
            "estimate": self.estimate,
            "s.e.": self.standard_error,
            "low": self.low,
            "high": self.high,
            "df": self.df,
            "p": self.p_value(),
            "fmi": self.fraction_missing,
        }
        table = pd.DataFrame({name: np.atleast_1d(values) for name, values in columns.items()})
        return table if self.names is None else table.set_axis(list(self.names))

    def p_value(self, null: ArrayLike = 0.0) -> Numbers:
        """Return the two-sided p-value of the hypothesis that the estimand is `null`."""
        from scipy.stats import t

        distance = np.abs(self.estimate - np.asarray(null, dtype=np.float64))
        # Without any spread an estimate is right or wrong.
        certain = np.where(distance > 0, np.inf, 0.0)
        known = self.standard_error > 0
        statistic = np.where(known, distance / np.where(known, self.standard_error, 1.0), certain)
        # With no degrees of freedom nothing can be refuted.
        free = self.df > 0
        return np.where(free, 2 * t.sf(statistic, np.where(free, self.df, 1.0)), 1.0)


def pool(
    estimates: ArrayLike,
    variances: ArrayLike,
    *,
    complete_df: float | None = None,
    level: float = 0.95,
) -> Pooled:
    """Combine the same analysis of several completed data sets (Rubin, 1987).

    Args:
        estimates: `(m,)` or `(m, k)`, one row per completed data set, at least two. A list of
            pandas Series, such as the parameters of fits, lends its names to the summary.
        variances: Same shape, the squared standard errors.
        complete_df: Degrees of freedom of the analysis on complete data, such as rows minus
            coefficients, for the small-sample correction of Barnard and Rubin (1999). None for
            large samples: Rubin's own degrees of freedom.
        level: Coverage probability of the interval.

    Raises:
        ValueError: if there are fewer than two data sets, shapes differ, a number is not finite, a
            variance is negative, or `complete_df` or `level` is out of range.

    Example:
        >>> pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], complete_df=20)
        >>> print(f"{pooled.estimate} +- {pooled.standard_error:.3f}, {pooled.df:.3f} free")
        2.0 +- 1.354, 2.149 free
    """
    names = _names(estimates)
    values, squares = _checked(estimates, variances)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; got {level}")
    if complete_df is not None and not complete_df > 0:
        raise ValueError(f"complete_df must be positive, or None; got {complete_df}")
    estimate, within, between = values.mean(0), squares.mean(0), _variance(values)
    added = (1 + 1 / len(values)) * between
    total = within + added
    share = np.where(total > 0, added / np.where(total > 0, total, 1.0), 0.0)
    df = _degrees_of_freedom(share, len(values), complete_df)
    error = np.sqrt(total)
    half = np.where(error > 0, error * _quantile(df, level), 0.0)
    return Pooled(
        estimate=np.asarray(estimate),
        standard_error=error,
        df=df,
        low=estimate - half,
        high=estimate + half,
        within=within,
        between=between,
        share_between=share,
        fraction_missing=share + (1 - share) * 2 / (df + 3),
        names=names,
    )


def _names(estimates: Any) -> tuple[str, ...] | None:
    """Return the names that all of a list of pandas Series have; None of anything else."""
    if not isinstance(estimates, list | tuple) or not estimates:
        return None
    series = [own for own in estimates if hasattr(own, "to_frame")]
    if len(series) < len(estimates):
        return None
    found = [tuple(map(str, own.index)) for own in series]
    for number, own in enumerate(found):
        if own != found[0]:
            raise ValueError(
                f"estimates of data set {number}: expected those of the first, "
                f"{', '.join(found[0])}; got {', '.join(own)}. Fit the same model to every data set"
            )
    return found[0]


def _checked(estimates: ArrayLike, variances: ArrayLike) -> tuple[Numbers, Numbers]:
    values = np.asarray(estimates, dtype=np.float64)
    squares = np.asarray(variances, dtype=np.float64)
    if values.ndim not in (1, 2):
        raise ValueError(f"estimates must have shape (m,) or (m, k); got {values.shape}")
    if squares.shape != values.shape:
        raise ValueError(
            f"variances must have the estimates' shape {values.shape}; got {squares.shape}"
        )
    if len(values) < 2:
        raise ValueError(
            f"Rubin's rules need at least 2 completed data sets, got {len(values)}: from a single "
            "one, the variance due to missing values cannot be estimated; make more draws"
        )
    if not (np.isfinite(values).all() and np.isfinite(squares).all()):
        raise ValueError("estimates and variances must be finite")
    if (squares < 0).any():
        raise ValueError(
            f"variances must not be negative, got {squares.min()}: they are squared standard errors"
        )
    return values, squares


def _variance(values: Numbers) -> Numbers:
    """Return the variance over data sets."""
    # Equal estimates have none; their mean may be off by its last bit.
    return np.where(np.ptp(values, axis=0) > 0, values.var(axis=0, ddof=1), 0.0)


def _degrees_of_freedom(share: Numbers, sets: int, complete_df: float | None) -> Numbers:
    """Return (m - 1) / lambda^2, combined with the observed data's own if they are few."""
    with np.errstate(divide="ignore", over="ignore"):
        between = (sets - 1) / np.square(share)
        if complete_df is None or np.isinf(complete_df):
            return np.asarray(between)
        observed = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - share)
        # Half the harmonic mean, written so that an infinite or zero term does no harm.
        return np.asarray(1 / (1 / between + 1 / observed))


def _quantile(df: Numbers, level: float) -> Numbers:
    """Return the t quantile of an interval's half width; infinite without degrees of freedom."""
    from scipy.stats import t

    free = df > 0
    return np.where(free, t.ppf((1 + level) / 2, np.where(free, df, 1.0)), np.inf)
