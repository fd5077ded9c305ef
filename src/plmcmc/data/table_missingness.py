"""Mechanisms for tables, whose missingness depends on values: MAR and MNAR.

Like every mechanism they are called with the complete data, here of shape (rows, columns), and
return a bool array of the same shape, True where the entry is seen.
"""

from dataclasses import dataclass

import numpy as np

from plmcmc.data.missingness import CheckedParameters, RandomState, require


@dataclass(frozen=True)
class MissingAtRandom(CheckedParameters):
    """Entries of a table are missing depending on columns that are always observed.

    A random share `always_seen` of the columns (at least one) is never missing. Each other column
    is missing with probability `sigmoid(strength * score + intercept)`, where the score is its own
    standardised random combination of the always observed columns, and the intercept makes the
    expected share of missing entries of the whole table `rate`.
    """

    rate: float
    always_seen: float = 0.3
    strength: float = 2.0

    def __call__(self, x: np.ndarray, random_state: RandomState = None) -> np.ndarray:
        """Return which entries of the table `x` are seen."""
        rng, table = np.random.default_rng(random_state), _standardised(_complete_table(x))
        columns = table.shape[1]
        seen_count = max(1, round(self.always_seen * columns))
        largest = 1 - seen_count / columns
        expected = f"a rate of at most {largest:.6g} with {seen_count} of {columns} columns seen"
        require(self.rate <= largest + 1e-12, expected, self.rate, "lower rate or always_seen")
        seen, other = np.split(rng.permutation(columns), [seen_count])
        score = _standardised(table[:, seen] @ rng.standard_normal((seen.size, other.size)))
        probability = np.zeros(table.shape)
        share = min(1.0, self.rate / largest) if other.size else 0.0
        probability[:, other] = _probabilities(self.strength * score, share)
        return rng.random(table.shape) >= probability


@dataclass(frozen=True)
class MissingNotAtRandom(CheckedParameters):
    """Entries of a table are missing depending on their own value.

    The probability is `sigmoid(strength * value + intercept)` of the standardised value, and each
    column's intercept makes its expected share of missing entries `rate`.
    """

    rate: float
    strength: float = 2.0

    def __call__(self, x: np.ndarray, random_state: RandomState = None) -> np.ndarray:
        """Return which entries of the table `x` are seen."""
        logits = self.strength * _standardised(_complete_table(x))
        draws = np.random.default_rng(random_state).random(logits.shape)
        return draws >= _probabilities(logits, self.rate)


def _complete_table(x: np.ndarray) -> np.ndarray:
    """Return `x` as floats; refuses what is not a table of finite numbers."""
    remedy = "reshape first, e.g. x.reshape(len(x), -1)"
    expected = "a table of shape (rows, columns) that is not empty"
    require(x.ndim == 2 and 0 not in x.shape, expected, f"shape {x.shape}", remedy)
    table = np.asarray(x, dtype=np.float64)
    for row, column in np.argwhere(~np.isfinite(table)):
        place = f"{table[row, column]} at row {row}, column {column}"
        require(False, "finite numbers", place, "start from complete data")
    return table


def _standardised(table: np.ndarray) -> np.ndarray:
    """Return the columns with mean 0 and variance 1; constant columns become 0."""
    spread = table.std(axis=0)
    # A constant column may have a spread from rounding alone, by which nothing must be divided.
    spread[(np.ptp(table, axis=0) == 0) | (spread == 0)] = np.inf
    return (table - table.mean(axis=0)) / spread


def _probabilities(logits: np.ndarray, share: float) -> np.ndarray:
    """Return sigmoid(logits + intercept), the intercepts making each column's mean `share`."""
    from scipy.optimize import brentq
    from scipy.special import expit

    if share in (0, 1):
        return np.full(logits.shape, share)

    def excess(intercept: float, column: np.ndarray) -> float:
        return float(np.mean(expit(column + intercept) - share))

    centre = np.log(share) - np.log1p(-share)
    # The root lies between the intercepts that suit the extreme logits; 1 is for the rounding.
    intercepts = [
        brentq(excess, centre - column.max() - 1, centre - column.min() + 1, args=(column,))
        for column in np.ascontiguousarray(logits.T)
    ]
    return expit(logits + np.array(intercepts))
