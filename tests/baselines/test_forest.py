"""missForest: it finds what columns know of each other, stops as published, and repeats itself."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from plmcmc.baselines import ForestImputer, MeanImputer, forest
from plmcmc.data import DataError
from plmcmc.statistics import nmse

ROWS = 150


def small(**changes) -> ForestImputer:
    return ForestImputer(**({"trees": 15, "max_iterations": 3, "random_state": 0} | changes))


@pytest.fixture(scope="module")
def related() -> np.ndarray:
    """Three columns that a number has bent: no two are correlated much."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(-2, 2, ROWS)
    bent = np.stack([angle, angle**2, np.sin(3 * angle)], axis=1)
    return bent + 0.05 * rng.normal(size=bent.shape)


@pytest.fixture(scope="module")
def missing() -> np.ndarray:
    return np.random.default_rng(1).random((ROWS, 3)) < 0.2


@pytest.fixture(scope="module")
def holed(related, missing) -> np.ndarray:
    return np.where(missing, np.nan, related)


@pytest.fixture(scope="module")
def filled(holed) -> np.ndarray:
    return small().fill(holed)


class TestFill:
    def test_it_beats_the_mean_where_columns_tell_of_each_other(
        self, related, missing, holed, filled
    ):
        assert nmse(related, filled, missing) < 0.5 * nmse(
            related, MeanImputer().fill(holed), missing
        )

    def test_it_does_not_where_they_do_not(self, related, missing):
        """Negative control: the same columns, each in an order of its own."""
        shuffled = np.random.default_rng(2).permuted(related, axis=0)
        found = small().fill(np.where(missing, np.nan, shuffled))
        assert nmse(shuffled, found, missing) > 0.9

    def test_what_is_seen_stays_and_nothing_is_missing(self, missing, related, filled):
        np.testing.assert_array_equal(filled[~missing], related[~missing])
        assert np.isfinite(filled).all()

    def test_predictions_stay_among_what_was_seen(self, holed, filled):
        """A forest averages values of its column: it cannot leave their range."""
        rounding = 1e-12
        assert (filled >= np.nanmin(holed, axis=0) - rounding).all()
        assert (filled <= np.nanmax(holed, axis=0) + rounding).all()

    def test_the_table_handed_over_is_not_written_to(self, missing, holed):
        small(trees=2, max_iterations=1).fill(holed)
        np.testing.assert_array_equal(np.isnan(holed), missing)

    def test_pandas_is_taken(self, holed):
        few = small(trees=3, max_iterations=1)
        np.testing.assert_array_equal(few.fill(pd.DataFrame(holed)), few.fill(holed))

    @pytest.mark.parametrize("imputer", [small(), MeanImputer()], ids=["forest", "mean"])
    def test_two_rows_are_enough(self, imputer):
        assert imputer.fill([[1.0, 2.0], [2.0, np.nan]]).tolist() == [[1, 2], [2, 2]]


class TestAsPublished:
    def test_the_defaults_are_those_of_the_package(self):
        assert (ForestImputer().trees, ForestImputer().max_iterations) == (100, 10)
        # A square: the root of one column less would be rounded to 4.
        grown = ForestImputer()._forest(25, np.random.default_rng(0))
        assert (grown.max_features, grown.min_samples_leaf, grown.bootstrap) == (5, 1, True)

    def test_a_single_column_with_holes_is_one_forest(self, related, missing):
        """Scikit-learn's, on the rows that have it."""
        holes = missing[:, 1]
        holed = related.copy()
        holed[holes, 1] = np.nan
        seed = int(np.random.default_rng(0).integers(2**31))
        direct = RandomForestRegressor(15, max_features=1, random_state=seed)
        direct.fit(related[~holes][:, [0, 2]], related[~holes, 1])
        found = small(max_iterations=1).fill(holed)[holes, 1]
        # Other units round differently, which may move a split between two values.
        np.testing.assert_allclose(
            found, direct.predict(related[holes][:, [0, 2]]), atol=0.1 * related[:, 1].std()
        )

    def test_columns_are_visited_from_the_least_to_the_most_missing(self):
        seen = np.array([[0, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0]], dtype=bool)
        assert forest._visits(seen) == [2, 3, 0]

    def test_the_criterion_is_the_change_relative_to_the_table(self):
        updated, before = np.array([[3.0, 4.0]]), np.array([[3.0, 2.0]])
        assert forest._difference(updated, before) == pytest.approx(4 / 25)
        assert forest._difference(np.zeros((1, 2)), np.zeros((1, 2))) == 0

    @pytest.mark.parametrize(
        ("changes", "iterations", "kept", "made"),
        [
            ([4.0, 2.0, 3.0, 1.0], 10, 2, 3),
            ([4.0, 2.0, 2.0, 1.0], 10, 2, 3),
            ([4.0, 5.0, 1.0, 1.0], 10, 1, 2),
            ([4.0, 3.0, 2.0, 1.0], 2, 2, 2),
            ([4.0, 3.0, 2.0, 2.5], 4, 3, 4),
        ],
        ids=["rises", "stays", "rises at once", "runs out", "rises at the end"],
    )
    def test_it_stops_when_changes_grow_and_keeps_the_table_before(
        self, monkeypatch, changes, iterations, kept, made
    ):
        sweeps = []

        def sweep(_self, filled, _seen, _rng):
            sweeps.append(filled)
            return filled + 1

        monkeypatch.setattr(ForestImputer, "_sweep", sweep)
        monkeypatch.setattr(forest, "_difference", lambda *_: changes[len(sweeps) - 1])
        found = ForestImputer(max_iterations=iterations).fill([[0.0, 0.0]])
        assert len(sweeps) == made
        np.testing.assert_array_equal(found, kept)


class TestRandomness:
    def test_a_seed_repeats_itself(self, holed, filled):
        np.testing.assert_array_equal(small().fill(holed), filled)

    def test_another_seed_grows_other_trees(self, holed, filled):
        assert (small(random_state=1).fill(holed) != filled).any()

    def test_threads_do_not_matter(self, holed, filled):
        np.testing.assert_array_equal(small(jobs=2).fill(holed), filled)


class TestUnits:
    # Powers of two, so that no number is rounded differently.
    @pytest.mark.parametrize("factor", [2.0**-40, 2.0**20])
    def test_they_do_not_matter(self, holed, factor):
        """Scikit-learn alone takes such small spreads for none."""
        once = small(max_iterations=1)
        np.testing.assert_allclose(once.fill(factor * holed), factor * once.fill(holed))

    def test_a_large_offset_does_not_matter(self, missing, related):
        """As of times in seconds: single precision would leave steps of 128."""
        rounded = np.round(related, 4)
        moved = np.where(missing, np.nan, rounded + 2.0**30)
        found = small().fill(moved) - 2.0**30
        assert nmse(rounded, found, missing) < 0.5


class TestLimits:
    def test_without_holes_nothing_changes(self, related):
        np.testing.assert_array_equal(small().fill(related), related)

    def test_one_column_has_only_its_mean(self):
        found = small().fill([[1.0], [np.nan], [3.0]])
        np.testing.assert_array_equal(found, [[1.0], [2.0], [3.0]])

    def test_a_constant_column_stays_constant(self, holed):
        table = np.column_stack([holed, np.where(np.isnan(holed[:, 0]), np.nan, 0.1)])
        np.testing.assert_array_equal(small(trees=3).fill(table)[:, 3], 0.1)

    def test_one_seen_value_is_all_that_a_column_has(self):
        found = small(trees=3).fill([[1.0, 5.0], [2.0, np.nan], [np.nan, np.nan]])
        np.testing.assert_array_equal(found[:, 1], 5.0)

    def test_rows_without_any_value_are_filled_too(self, holed):
        assert np.isfinite(small(trees=3).fill(np.vstack([holed, np.full(3, np.nan)]))).all()

    @pytest.mark.parametrize("name", ["trees", "max_iterations"])
    def test_none_at_all_is_refused(self, name):
        with pytest.raises(ValueError, match=f"{name} must be at least 1; got 0"):
            ForestImputer(**{name: 0})

    def test_a_column_without_values_is_refused(self):
        with pytest.raises(DataError, match="column 1 has no observed value"):
            small().fill([[1.0, np.nan], [2.0, np.nan]])

    def test_a_categorical_column_is_refused_by_name(self):
        table = pd.DataFrame({"size": [1.0, np.nan], "colour": ["red", "blue"]})
        with pytest.raises(DataError, match="column 'colour' is categorical"):
            small().fill(table)
