"""The Frechet distance is that of Gaussians in closed form, and takes features that never vary."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from plmcmc.statistics import FeatureMoments, feature_moments, frechet_distance


def normals(rows: int, features: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, features))


def covariance(features: int, seed: int) -> np.ndarray:
    root = normals(features, features, seed)
    return root @ root.T


class TestValue:
    # Of these seeds, rounding leaves one less than nothing.
    @pytest.mark.parametrize("seed", range(6))
    def test_it_is_zero_for_equal_sets(self, seed):
        x = normals(200, 6, seed)
        # A root of rounding errors of size eps has size 1e-8.
        assert 0 <= frechet_distance(x, x.copy()) < 1e-7

    def test_it_is_zero_for_the_same_rows_in_another_order(self):
        x = normals(200, 6)
        assert frechet_distance(x, x[::-1]) < 1e-7

    def test_variances_are_unbiased(self):
        """Two rows 2 apart have a variance of 2: divided by one less than the rows."""
        assert frechet_distance([[0.0], [2.0]], [[1.0], [1.0]]) == pytest.approx(2)

    def test_of_one_feature_it_is_that_of_means_and_deviations(self):
        one = FeatureMoments(np.array([1.0]), np.array([[4.0]]))
        two = FeatureMoments(np.array([4.0]), np.array([[25.0]]))
        assert frechet_distance(one, two) == pytest.approx(3**2 + (5 - 2) ** 2)

    def test_of_independent_features_it_is_their_sum(self):
        one = FeatureMoments(np.zeros(3), np.diag([1.0, 4.0, 9.0]))
        two = FeatureMoments(np.array([0.0, 1.0, 2.0]), np.diag([16.0, 4.0, 1.0]))
        assert frechet_distance(one, two) == pytest.approx(9 + 1 + 4 + 4)

    def test_of_any_covariances_it_is_the_formula(self):
        one, two = (FeatureMoments(normals(1, 5, s)[0], covariance(5, s)) for s in (1, 2))
        root = np.real(sqrtm(one.covariance @ two.covariance))
        expected = np.square(one.mean - two.mean).sum()
        expected += np.trace(one.covariance + two.covariance - 2 * root)
        assert frechet_distance(one, two) == pytest.approx(expected)

    def test_a_wrong_root_would_be_seen(self):
        """Negative control: roots of the entries are those of the matrix for diagonal ones only."""
        one, two = (FeatureMoments(np.zeros(5), covariance(5, s)) for s in (1, 2))
        root = np.sqrt(np.abs(one.covariance @ two.covariance))
        wrong = np.trace(one.covariance + two.covariance - 2 * root)
        assert frechet_distance(one, two) != pytest.approx(wrong, rel=0.05)

    def test_it_is_symmetric(self):
        x, y = normals(100, 4), 2 * normals(80, 4, seed=1) + 1
        assert frechet_distance(x, y) == pytest.approx(frechet_distance(y, x))

    def test_turning_both_sets_changes_nothing(self):
        x, y = normals(100, 4), 2 * normals(80, 4, seed=1) + 1
        turn = np.linalg.qr(normals(4, 4, seed=2))[0]
        assert frechet_distance(x @ turn, y @ turn) == pytest.approx(frechet_distance(x, y))

    def test_features_that_never_vary_are_taken(self):
        x, y = normals(100, 4), 3 * normals(80, 4, seed=1)
        dead = np.zeros((100, 2)), np.zeros((80, 2))
        wider = frechet_distance(np.hstack([x, dead[0]]), np.hstack([y, dead[1]]))
        assert wider == pytest.approx(frechet_distance(x, y))

    def test_fewer_rows_than_features_are_taken(self):
        x = normals(5, 20)
        assert frechet_distance(x, x + 1.0) == pytest.approx(20.0)

    def test_moments_may_be_handed_over(self):
        x, y = normals(50, 3), normals(60, 3, seed=1)
        assert frechet_distance(feature_moments(x), y) == frechet_distance(x, y)

    def test_a_large_offset_takes_no_digits(self):
        x, y = normals(100, 3), 2 * normals(100, 3, seed=1)
        moved = frechet_distance(x + 2.0**20, y + 2.0**20)
        assert moved == pytest.approx(frechet_distance(x, y), rel=1e-8)


class TestRefusals:
    @pytest.mark.parametrize("shape", [(3,), (1, 4), (0, 4), (2, 3, 4)])
    def test_what_has_no_covariance_is_refused(self, shape):
        with pytest.raises(ValueError, match="two rows or more"):
            feature_moments(np.zeros(shape))

    def test_other_features_are_refused(self):
        with pytest.raises(ValueError, match="same features; got 3 and 4"):
            frechet_distance(normals(10, 3), normals(10, 4))

    def test_a_row_that_is_not_finite_is_named(self):
        x = normals(10, 3)
        x[7, 1] = np.nan
        with pytest.raises(ValueError, match="row 7"):
            frechet_distance(x, x)
