"""The Gaussian baseline: conditional means by the textbook, draws that spread as they should."""

import numpy as np
import pytest

from plmcmc.baselines import GaussianImputer
from plmcmc.data import DataError

RNG = np.random.default_rng(0)
COVARIANCE = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.5], [0.2, 0.5, 1.0]])
UNITS = np.array([1.0, 100.0, 1e-3])
TABLE = RNG.multivariate_normal([1.0, 2.0, 3.0], COVARIANCE, 4000) * UNITS
HOLES = RNG.random(TABLE.shape) < 0.3
SEEN = np.where(HOLES, np.nan, TABLE)


def test_means_are_those_of_the_true_gaussian():
    filled = GaussianImputer().fill(SEEN)
    assert (filled[~HOLES] == TABLE[~HOLES]).all()
    rows = HOLES[:, 1] & ~HOLES[:, 0] & ~HOLES[:, 2]
    known = [0, 2]
    gain = COVARIANCE[1, known] @ np.linalg.inv(COVARIANCE[np.ix_(known, known)])
    scaled = TABLE / UNITS - [1.0, 2.0, 3.0]
    expected = 2.0 + scaled[rows][:, known] @ gain
    # Moments of 4,000 rows with holes are off by some hundredths.
    assert np.abs(filled[rows, 1] / 100.0 - expected).max() < 0.2


def test_draws_cover_as_often_as_they_say():
    drawn = GaussianImputer().sample(SEEN, 100, random_state=0)
    low, high = np.quantile(drawn[:, HOLES], [0.05, 0.95], axis=0)
    inside = ((TABLE[HOLES] >= low) & (TABLE[HOLES] <= high)).mean()
    # Quantiles of 100 draws are a little narrow.
    assert abs(inside - 0.9) < 0.03


# Powers of two, so that no number is rounded differently.
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**20])
def test_units_do_not_matter(unit):
    factor = np.array([1.0, unit, 1.0])
    own, other = (GaussianImputer().fill(x) for x in (SEEN, SEEN * factor))
    np.testing.assert_array_equal(other, own * factor)
    own, other = (GaussianImputer().sample(x, 2, random_state=0) for x in (SEEN, SEEN * factor))
    np.testing.assert_array_equal(other, own * factor)


def test_a_column_without_values_is_named():
    with pytest.raises(DataError, match="column 1 has no observed value"):
        GaussianImputer().fill(np.array([[1.0, np.nan], [2.0, np.nan]]))
