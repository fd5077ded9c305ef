"""Scores are their definitions, are best for the truth, and refuse what has no score."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from plmcmc.statistics import coverage, crps, interval, nmse, reconstruction_rmse

TRUTH = np.array([[1.0, 10.0], [3.0, 10.0], [1.0, 20.0], [3.0, 20.0]])
FILLED = np.array([[2.0, 10.0], [0.0, 5.0], [1.0, 20.0], [3.0, 30.0]])
MISSING = np.array([[1, 0], [1, 1], [0, 0], [0, 1]], dtype=bool)
FALSE_ALARM = 1e-4


def normals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


class TestNmse:
    def test_by_row_and_by_entry_are_those_of_a_worked_example(self):
        # Deviations 1 and 5. Squares: row 0 has 1; row 1 has 9 and 1; row 3 has 4.
        assert nmse(TRUTH, FILLED, MISSING) == pytest.approx((1 + 5 + 4) / 3)
        assert nmse(TRUTH, FILLED, MISSING, by="entry") == pytest.approx((1 + 9 + 1 + 4) / 4)

    def test_a_spread_of_ones_leaves_the_squares(self):
        expected = (1 + (9 + 25) / 2 + 100) / 3
        assert nmse(TRUTH, FILLED, MISSING, np.ones(2)) == pytest.approx(expected)

    def test_the_means_have_one_by_entry_if_all_is_missing(self):
        table = normals(50, 3)
        everything = np.ones(table.shape, dtype=bool)
        assert nmse(table, table.mean(0) + 0 * table, everything) == pytest.approx(1)

    def test_seen_entries_are_not_looked_at(self):
        damaged = np.where(MISSING, FILLED, np.nan)
        assert nmse(TRUTH, damaged, MISSING) == nmse(TRUTH, FILLED, MISSING)

    def test_units_do_not_matter(self):
        factor, shift = np.array([1e-6, 1e3]), np.array([5.0, -1e3])
        moved = nmse(TRUTH * factor + shift, FILLED * factor + shift, MISSING)
        assert moved == pytest.approx(nmse(TRUTH, FILLED, MISSING), rel=1e-6)

    def test_images_are_rows_of_entries(self):
        truth, filled, holes = normals(5, 2, 3), normals(5, 2, 3, seed=1), normals(5, 2, 3) > 0
        flat = nmse(*(part.reshape(5, 6) for part in (truth, filled, holes)))
        assert nmse(truth, filled, holes) == pytest.approx(flat)

    def test_a_constant_column_without_holes_is_no_matter(self):
        constant = np.full((4, 1), 0.1)
        none = np.zeros((4, 1), dtype=bool)
        with_it = (np.hstack([part, constant]) for part in (TRUTH, FILLED))
        assert nmse(*with_it, np.hstack([MISSING, none])) == nmse(TRUTH, FILLED, MISSING)

    def test_a_constant_column_with_holes_is_refused_by_number(self):
        truth = np.hstack([TRUTH, np.full((4, 1), 0.1)])
        holes = np.hstack([MISSING, np.ones((4, 1), dtype=bool)])
        with pytest.raises(ValueError, match=r"column 2 .* spread of 0\.0"):
            nmse(truth, truth, holes)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"filled": FILLED[:2]}, "filled must have truth's shape"),
            ({"missing": MISSING[0]}, "missing must have truth's shape"),
            ({"missing": np.zeros_like(MISSING)}, "nothing is missing"),
            ({"filled": np.full_like(FILLED, np.nan)}, "finite wherever missing"),
            ({"truth": np.where(MISSING, np.inf, TRUTH)}, "finite wherever missing"),
            ({"spread": [1.0, -1.0]}, r"column 1 .* spread of -1\.0"),
            ({"by": "column"}, "'column'"),
        ],
    )
    def test_bad_input_is_refused(self, change, message):
        arguments = {"truth": TRUTH, "filled": FILLED, "missing": MISSING} | change
        with pytest.raises(ValueError, match=message):
            nmse(**arguments)


class TestCrps:
    @pytest.mark.parametrize("count", [1, 2, 5, 40])
    def test_it_is_the_mean_over_all_pairs(self, count):
        truth, draws = normals(3, 2), normals(count, 3, 2, seed=1).round(1)
        pairs = np.abs(draws[:, None] - draws[None]).mean((0, 1))
        expected = np.abs(draws - truth).mean(0) - pairs / 2
        found = crps(truth, draws)
        assert found.shape == truth.shape
        np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_if_fair_a_draw_makes_no_pair_with_itself(self):
        truth, draws = normals(3, 2), normals(5, 3, 2, seed=1)
        pairs = np.abs(draws[:, None] - draws[None]).sum((0, 1)) / (5 * 4)
        expected = np.abs(draws - truth).mean(0) - pairs / 2
        np.testing.assert_allclose(crps(truth, draws, fair=True), expected, atol=1e-12)
        with pytest.raises(ValueError, match="2 draws or more"):
            crps(truth, draws[:1], fair=True)

    def test_it_is_the_integral_of_the_squared_difference_of_distributions(self):
        draws, grid = normals(7), np.linspace(-8, 8, 160_001)
        share = (draws[:, None] <= grid).mean(0)
        integral = np.square(share - (grid >= 0.3)).sum() * (grid[1] - grid[0])
        assert crps(0.3, draws) == pytest.approx(integral, abs=1e-3)

    def test_many_normal_draws_have_the_normal_s_score(self):
        count, entries = 1000, 200
        truth = normals(entries, seed=1)
        found = crps(truth, normals(count, entries)).mean()
        each = truth * (2 * norm.cdf(truth) - 1) + 2 * norm.pdf(truth) - 1 / math.sqrt(math.pi)
        # Pairs of a draw with itself add E|X - X'| / (2 count).
        bias = 1 / (count * math.sqrt(math.pi))
        # A draw at x counts h(x) = |x - y| - E|X - x|, whose variance is at most E h'(X)^2
        # (Poincare), which is at most 4/3.
        noise = norm.isf(FALSE_ALARM / 2) * math.sqrt(4 / 3 / (count * entries))
        assert found - bias == pytest.approx(each.mean(), abs=noise)

    @pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
    def test_a_wrong_spread_scores_worse(self, factor):
        truth, draws = normals(2000, seed=1), normals(100, 2000)
        assert crps(truth, factor * draws).mean() > crps(truth, draws).mean() + 0.02

    def test_one_draw_has_its_absolute_error(self):
        np.testing.assert_array_equal(crps([1.0, -2.0], [[4.0, 0.0]]), [3.0, 2.0])

    def test_a_large_offset_takes_no_digits(self):
        truth, draws = normals(3).round(3), normals(30, 3, seed=1).round(3)
        moved = crps(truth + 2.0**30, draws + 2.0**30)
        np.testing.assert_allclose(moved, crps(truth, draws), atol=1e-6)

    @pytest.mark.parametrize("shape", [(), (3,), (0, 2), (5, 3), (5, 2, 1)])
    def test_other_shapes_are_refused(self, shape):
        with pytest.raises(ValueError, match=r"draws must have shape \(draws, \*truth.shape\)"):
            crps(np.zeros(2), np.zeros(shape))


class TestCoverage:
    def test_both_ends_count(self):
        assert coverage([0.0, 1.0, 1.1, -0.1], np.zeros(4), np.ones(4)) == 0.5

    def test_quantiles_cover_as_often_as_they_say(self):
        entries = 20_000
        high = norm.isf(0.05) * np.ones(entries)
        noise = norm.isf(FALSE_ALARM / 2) * math.sqrt(0.9 * 0.1 / entries)
        assert coverage(normals(entries), -high, high) == pytest.approx(0.9, abs=noise)

    @pytest.mark.parametrize("draws", [19, 99])
    def test_intervals_of_draws_hold_one_more_as_often_as_they_say(self, draws):
        entries = 20_000
        drawn = normals(draws, entries, seed=draws)
        noise = norm.isf(FALSE_ALARM / 2) * math.sqrt(0.9 * 0.1 / entries)
        held = coverage(normals(entries), *interval(drawn, 0.9))
        assert held == pytest.approx(0.9, abs=noise)
        # The control: NumPy's default is too narrow.
        narrow = coverage(normals(entries), *np.quantile(drawn, [0.05, 0.95], axis=0))
        assert narrow < 0.9 - noise

    @pytest.mark.parametrize(
        ("truth", "low", "high", "message"),
        [
            ([1.0], [2.0], [1.0], "low must not lie above high"),
            ([1.0], [np.nan], [1.0], "NaN"),
            ([np.nan], [0.0], [1.0], "truth has NaN"),
            ([1.0, 2.0], [0.0], [1.0], "low must have truth's shape"),
            ([], [], [], "empty"),
        ],
    )
    def test_bad_input_is_refused(self, truth, low, high, message):
        with pytest.raises(ValueError, match=message):
            coverage(truth, low, high)


class TestReconstructionError:
    def test_it_is_the_mean_over_rows_of_their_own(self):
        truth = np.zeros((3, 2, 2))
        filled = np.array([[[3.0, 4.0], [9, 9]], [[1.0, 9], [9, 9]], [[9, 9], [9, 9]]])
        missing = np.array(
            [[[True, True], [False, False]], [[True, False], [False, False]], [[False] * 2] * 2]
        )
        # Rows: sqrt((9 + 16) / 2) and 1; the third has no holes.
        assert reconstruction_rmse(truth, filled, missing) == pytest.approx((12.5**0.5 + 1) / 2)

    def test_constant_pixels_are_no_matter(self):
        assert reconstruction_rmse([[1.0], [1.0]], [[1.5], [1.0]], [[True], [True]]) == 0.25

    def test_nothing_missing_is_refused(self):
        with pytest.raises(ValueError, match="nothing is missing"):
            reconstruction_rmse([[1.0]], [[1.0]], [[False]])
