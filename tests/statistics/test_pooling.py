"""Rubin's rules: worked by hand, as mice prints them, in their limits, and covering as they say."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t

from plmcmc.statistics import coverage, pool

FALSE_ALARM = 1e-4
SETS, TRIALS = 5, 20_000


def sets_with(mean: float, between: float, within: float, count: int = 5):
    """Estimates and variances with just these moments."""
    steps = np.arange(count) - (count - 1) / 2
    estimates = mean + steps * math.sqrt(between / steps.var(ddof=1))
    return estimates, within * (1 + steps / count)


class TestWorkedExample:
    """Estimates 1, 2, 3, each of variance 1/2; 20 degrees of freedom for complete data."""

    POOLED = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], complete_df=20)
    SHARE = Fraction(4, 3) / (Fraction(1, 2) + Fraction(4, 3))
    RUBIN_DF = 2 / SHARE**2
    OBSERVED_DF = Fraction(21, 23) * 20 * (1 - SHARE)
    DF = float(RUBIN_DF * OBSERVED_DF / (RUBIN_DF + OBSERVED_DF))

    def test_variances(self):
        assert self.POOLED.estimate == 2
        assert self.POOLED.within == 0.5
        assert self.POOLED.between == 1
        assert self.POOLED.standard_error == pytest.approx(math.sqrt(11 / 6))
        assert self.POOLED.share_between == pytest.approx(8 / 11)

    def test_degrees_of_freedom_and_what_follows(self):
        assert self.POOLED.df == pytest.approx(self.DF)
        increase = 8 / 3
        missing = (increase + 2 / (self.DF + 3)) / (1 + increase)
        assert self.POOLED.fraction_missing == pytest.approx(missing)

    def test_interval_and_p_value(self):
        half = t.isf(0.025, self.DF) * math.sqrt(11 / 6)
        assert self.POOLED.low == pytest.approx(2 - half)
        assert self.POOLED.high == pytest.approx(2 + half)
        assert self.POOLED.p_value() == pytest.approx(2 * t.sf(2 / math.sqrt(11 / 6), self.DF))

    def test_without_complete_df_they_are_rubin_s(self):
        large = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
        assert large.df == pytest.approx(121 / 32)
        assert large.df == pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], complete_df=math.inf).df
        assert large.df == pytest.approx(pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], complete_df=1e9).df)


class TestMice:
    """What mice prints for lm(age ~ bmi) on nhanes, 5 sets (github.com/amices/mice/pull/549)."""

    # Each for the intercept and for bmi.
    GIVEN = np.array(
        [[3.85793713, 0.1435955094, 1.101684619], [-0.07826576, 2.086205e-4, 1.498793e-3]]
    )
    STANDARD_ERROR = (1.12871574, 0.04182269)
    DF = (16.93708, 16.64170)
    SHARE_BETWEEN = (0.1352549, 0.1431246)
    FRACTION_MISSING = (0.2220023, 0.2303752)
    P_VALUE = (0.003292004, 0.078980518)

    @pytest.fixture(scope="class")
    @classmethod
    def pooled(cls):
        estimates, variances = zip(*(sets_with(*row) for row in cls.GIVEN), strict=True)
        return pool(np.transpose(estimates), np.transpose(variances), complete_df=23)

    @pytest.mark.parametrize("name", ["standard_error", "df", "share_between", "fraction_missing"])
    def test_same_numbers(self, pooled, name):
        np.testing.assert_allclose(getattr(pooled, name), getattr(self, name.upper()), rtol=1e-6)

    def test_same_p_values(self, pooled):
        np.testing.assert_allclose(pooled.p_value(), self.P_VALUE, rtol=1e-6)


class TestLimits:
    def test_without_differences_only_the_complete_data_count(self):
        pooled = pool([0.1] * 3, [4.0] * 3)
        assert pooled.between == pooled.share_between == pooled.fraction_missing == 0
        assert math.isinf(pooled.df)
        assert pooled.high == pytest.approx(0.1 + 2 * norm.isf(0.025))

    def test_without_differences_few_rows_still_count(self):
        assert pool([0.1] * 3, [4.0] * 3, complete_df=10).df == pytest.approx(11 / 13 * 10)

    def test_without_variances_only_the_differences_count(self):
        pooled = pool([1.0, 2.0, 3.0], [0.0] * 3)
        assert pooled.share_between == pooled.fraction_missing == 1
        assert pooled.df == 2

    def test_without_variances_few_rows_say_nothing(self):
        pooled = pool([1.0, 2.0, 3.0], [0.0] * 3, complete_df=10)
        assert (pooled.df, pooled.low, pooled.high) == (0, -math.inf, math.inf)
        assert pooled.p_value() == 1

    def test_without_any_spread_the_estimate_is_certain(self):
        pooled = pool([2.0, 2.0], [0.0, 0.0])
        assert pooled.low == pooled.high == 2
        assert (pooled.p_value(), pooled.p_value(2.0)) == (0, 1)

    def test_many_estimates_are_pooled_one_by_one(self):
        rng = np.random.default_rng(0)
        estimates, variances = rng.normal(size=(4, 3)), rng.gamma(2, size=(4, 3))
        together = pool(estimates, variances, complete_df=30, level=0.9)
        for column in range(3):
            alone = pool(estimates[:, column], variances[:, column], complete_df=30, level=0.9)
            assert alone.names is together.names is None
            numbers = {name: value for name, value in vars(alone).items() if name != "names"}
            for name, value in numbers.items():
                assert np.shape(value) == ()
                assert getattr(together, name)[column] == pytest.approx(value), name
            assert together.p_value()[column] == pytest.approx(alone.p_value())

    def test_a_null_at_the_interval_s_end_has_the_rest_of_the_level(self):
        pooled = pool([1.0, 2.0, 4.0], [1.0, 2.0, 1.0], complete_df=12, level=0.8)
        assert pooled.p_value(pooled.high) == pytest.approx(0.2)


def imputed_means(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of normal samples, half of them missing, and their variances, `(sets, trials)`.

    The true mean is 0. Holes come from their Bayesian predictive distribution; samples are drawn as
    their means and sums of squares, which is all that matters.
    """
    rng, half, shape = np.random.default_rng(0), rows // 2, (SETS, TRIALS)
    seen = rng.normal(size=TRIALS) / math.sqrt(half)
    squares = rng.chisquare(half - 1, size=TRIALS)
    scale = np.sqrt(squares / rng.chisquare(half - 1, size=shape))
    centre = seen + scale * rng.normal(size=shape) / math.sqrt(half)
    holes = centre + scale * rng.normal(size=shape) / math.sqrt(half)
    around = (
        squares + scale**2 * rng.chisquare(half - 1, size=shape) + half * (seen - holes) ** 2 / 2
    )
    return (seen + holes) / 2, around / ((rows - 1) * rows)


class TestCoverage:
    FEW, MANY = 20, 400

    def noise(self, level: float) -> float:
        """How far a covered share may stray."""
        return norm.isf(FALSE_ALARM / 2) * math.sqrt(level * (1 - level) / TRIALS)

    def covered(self, rows: int, **options) -> float:
        pooled = pool(*imputed_means(rows), **options)
        return coverage(np.zeros(TRIALS), pooled.low, pooled.high)

    @pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
    def test_intervals_cover_as_often_as_they_say(self, level):
        found = self.covered(self.MANY, complete_df=self.MANY - 1, level=level)
        assert found == pytest.approx(level, abs=self.noise(level))

    def test_few_rows_are_covered_if_the_complete_df_are_told(self):
        assert self.covered(self.FEW, complete_df=self.FEW - 1) > 0.95 - self.noise(0.95)

    def test_few_rows_are_covered_too_rarely_if_not(self):
        """Negative control: what Barnard and Rubin's correction is for."""
        assert self.covered(self.FEW) < 0.95 - self.noise(0.95)

    def test_one_completed_set_taken_for_data_covers_too_rarely(self):
        """Negative control: what Rubin's rules are for."""
        estimates, variances = imputed_means(self.MANY)
        half = t.isf(0.025, self.MANY - 1) * np.sqrt(variances[0])
        found = coverage(np.zeros(TRIALS), estimates[0] - half, estimates[0] + half)
        # Its mean has a variance of 2/rows from what was seen and 1/rows from what was drawn, and
        # is taken to have 1/rows.
        expected = 1 - 2 * norm.sf(norm.isf(0.025) / math.sqrt(3))
        assert expected < 0.75
        assert found == pytest.approx(expected, abs=self.noise(expected))


class TestBadInput:
    def test_one_set_is_refused(self):
        with pytest.raises(ValueError, match="at least 2 completed data sets, got 1"):
            pool([1.0], [1.0])

    @pytest.mark.parametrize(
        ("estimates", "variances", "options", "message"),
        [
            ([1.0, 2.0], [1.0, -0.5], {}, r"not be negative, got -0\.5"),
            ([1.0, 2.0], [1.0], {}, r"shape \(2,\); got \(1,\)"),
            (1.0, 1.0, {}, r"\(m,\) or \(m, k\); got \(\)"),
            (np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), {}, r"got \(2, 2, 2\)"),
            ([1.0, np.nan], [1.0, 1.0], {}, "finite"),
            ([1.0, 2.0], [1.0, np.inf], {}, "finite"),
            ([1.0, 2.0], [1.0, 1.0], {"level": 95}, "level must lie between 0 and 1; got 95"),
            ([1.0, 2.0], [1.0, 1.0], {"complete_df": 0}, "complete_df must be positive"),
            ([1.0, 2.0], [1.0, 1.0], {"complete_df": math.nan}, "complete_df must be positive"),
        ],
    )
    def test_bad_input_is_refused(self, estimates, variances, options, message):
        with pytest.raises(ValueError, match=message):
            pool(estimates, variances, **options)


def test_names_of_series_are_those_of_the_summary():
    fits = [pd.Series([1.0, 5.0], ["a", "b"]), pd.Series([3.0, 5.0], ["a", "b"])]
    pooled = pool(fits, [fit * 0 + 1 for fit in fits], complete_df=20)
    table = pooled.summary()
    assert list(table.index) == ["a", "b"]
    assert table.loc["a", "estimate"] == 2.0
    assert table.loc["a", "s.e."] == pytest.approx(math.sqrt(1 + 1.5 * 2))
    np.testing.assert_array_equal(table["p"], pooled.p_value())
    assert list(pool([1.0, 2.0], [1.0, 1.0]).summary().index) == [0]


def test_estimates_of_other_models_are_refused():
    fits = [pd.Series([1.0, 5.0], ["a", "b"]), pd.Series([3.0, 5.0], ["a", "c"])]
    with pytest.raises(ValueError, match="data set 1: expected those of the first, a, b; got a, c"):
        pool(fits, [fit * 0 + 1 for fit in fits])
