"""Columns of every kind: to regions of scores, and back from anywhere within them."""

import numpy as np
import pytest
from scipy.special import ndtri

from plmcmc.data import DataError, Schema
from plmcmc.data.schema import MOST_SPLITS, Levels

RNG = np.random.default_rng(0)
ROWS = 400
KINDS = ("continuous", "integer", "ordinal", "boolean", "categorical", "categorical")
TABLE = np.stack(
    [
        RNG.normal(size=ROWS),
        RNG.poisson(3.0, ROWS),
        RNG.integers(0, 4, ROWS),
        RNG.random(ROWS) < 0.2,
        RNG.choice(5, ROWS, p=[0.1, 0.4, 0.05, 0.3, 0.15]),
        RNG.integers(0, 2, ROWS),
    ],
    1,
).astype(float)


def schema(table=TABLE):
    levels = [None, None, None, None, 5, 2]
    return Schema.of(table, [f"c{i}" for i in range(6)], KINDS, levels)


def inside(regions, share):
    """Return scores this far up their regions, of which some are endless."""
    low, high = (np.clip(end, -9, 9) for end in regions)
    return low + share * (high - low)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_a_table_comes_back_from_anywhere_in_its_regions(share):
    found = schema()
    regions = found.regions(TABLE)
    assert regions.low.shape == (ROWS, found.width) == (ROWS, 4 + 4 + 1)
    np.testing.assert_allclose(found.table(inside(regions, share)), TABLE, atol=1e-9)


def test_regions_of_different_levels_do_not_meet():
    found = Levels.of("c", TABLE[:, 4], 5)
    low, high = found.regions(np.arange(5.0))
    for one in range(5):
        for other in range(one):
            apart = (low[one] >= high[other]) | (low[other] >= high[one])
            assert apart.any()


def test_holes_may_be_anywhere():
    low, high = schema().regions(np.full((2, 6), np.nan))
    assert (low == -np.inf).all()
    assert (high == np.inf).all()


def test_independent_scores_give_the_columns_own_distributions():
    count = 40_000
    drawn = schema().table(RNG.normal(size=(count, 9)))
    for column in range(1, 6):
        for value, seen in zip(*np.unique(TABLE[:, column], return_counts=True), strict=True):
            share = seen / ROWS
            error = np.sqrt(share * (1 - share) / count)
            assert abs((drawn[:, column] == value).mean() - share) < 4.5 * error


def test_the_most_frequent_level_is_split_off_first():
    found = Levels.of("c", np.array([2.0] * 6 + [0.0] * 3 + [1.0]), 3)
    assert found.order.tolist() == [2, 0, 1]
    np.testing.assert_allclose(found.thresholds, ndtri([0.4, 0.25]))


def test_a_level_never_seen_is_possible_and_rare():
    found = Levels.of("c", np.zeros(50), 3)
    drawn = found.codes(RNG.normal(size=(50_000, 2)))
    assert 0 < (drawn != 0).mean() < 0.02


class TestManyLevels:
    """The rarest share a score, an interval each."""

    count = MOST_SPLITS + 30
    codes = np.repeat(np.arange(float(count)), np.arange(count) + 1)
    levels = Levels.of("c", codes, count)

    def test_they_have_one_score_more_than_there_are_splits(self):
        assert self.levels.width == MOST_SPLITS + 1
        assert len(self.levels.thresholds) == MOST_SPLITS
        assert Levels.of("c", np.arange(MOST_SPLITS + 1.0), MOST_SPLITS + 1).width == MOST_SPLITS

    @pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
    def test_each_comes_back_from_anywhere_in_its_region(self, share):
        each = np.arange(float(self.count))
        np.testing.assert_array_equal(
            self.levels.codes(inside(self.levels.regions(each), share)), each
        )

    def test_their_regions_do_not_meet(self):
        low, high = self.levels.regions(np.arange(float(self.count)))
        apart = (low[:, None] >= high) | (low >= high[:, None])
        assert (apart.any(2) | np.eye(self.count, dtype=bool)).all()

    def test_independent_scores_give_each_as_often_as_it_was_seen(self):
        drawn = self.levels.codes(RNG.normal(size=(40_000, self.levels.width)))
        share = np.bincount(self.codes.astype(int)) / len(self.codes)
        error = np.sqrt(share * (1 - share) / len(drawn))
        found = np.bincount(drawn.astype(int), minlength=self.count) / len(drawn)
        # The largest of this many normals.
        assert (np.abs(found - share) < 4.5 * error).all()

    def test_one_of_them_not_known_may_be_anything(self):
        low, high = self.levels.regions(np.array([np.nan]))
        assert (low == -np.inf).all()
        assert (high == np.inf).all()


def test_one_level_has_no_score():
    found = Levels.of("c", np.zeros(5), 1)
    assert found.width == 0
    assert found.codes(np.empty((3, 0))).tolist() == [0, 0, 0]
    assert found.regions(np.zeros(3)).low.shape == (3, 0)


def test_discrete_columns_never_hold_what_was_not_seen():
    table = np.array([[1.0], [3.0], [7.0]])
    found = Schema.of(table, ["c"], ["integer"], [None])
    drawn = found.table(RNG.normal(size=(200, 1)))
    assert set(np.unique(drawn)) == {1.0, 3.0, 7.0}


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([np.nan, np.nan], "continuous", "column 'c': expected values to learn from"),
        ([1.0, 2.0], "colour", "column 'c': kind must be one of .*; got 'colour'"),
        ([1.0, 0.0], "categorical", "give its number of levels"),
    ],
)
def test_columns_that_cannot_be(values, kind, message):
    with pytest.raises(DataError, match=message):
        Schema.of(np.array(values)[:, None], ["c"], [kind], [None])


def test_a_continuous_value_never_seen_stays_between_its_neighbours():
    values = np.array([[0.0], [1.0], [4.0]])
    column = Schema.of(values, ["x"], ["continuous"], [None])
    seen, between = column.regions(values).low, column.regions(np.array([[2.0]])).low
    # A third of the way from 1 to 4.
    assert between[0, 0] == pytest.approx((2 * seen[1, 0] + seen[2, 0]) / 3)
