"""The mean that chains should come to: found once, and read by all studies."""

import numpy as np
import pytest

from plmcmc.experiments.digits.masked import Case
from plmcmc.experiments.efficiency.converged import Converged, Truth
from plmcmc.experiments.study import Place
from toys import DEVIATIONS, correlated

FEW = Converged(chains=8, draws=100, warmup=20)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, tmp_path / "shared", progress=False)


def case(truth=(2.0, 0.0, 0.0)):
    """Three pixels of a Gaussian, the first seen; twice as large as whitened, and ten more."""
    observed = np.array([True, False, False])
    return Case(correlated(), np.full(3, 10.0), np.full(3, 2.0), np.array(truth), observed)


def test_it_is_the_conditional_mean_in_pixels(place):
    own = case()
    found = FEW.truth(own, place)
    flow = correlated()
    mean, factor = flow.shift.detach().numpy(), flow.factor().detach().numpy()
    covariance = factor @ factor.T
    expected = mean + covariance[:, 0] / covariance[0, 0] * (own.row[0, 0] - mean[0])
    spread = np.sqrt(np.diag(covariance) - covariance[:, 0] ** 2 / covariance[0, 0])
    told = found.told()
    error = 2 * spread / told["effective draws, least"] ** 0.5
    assert (np.abs(found.mean - 10 - 2 * expected) <= DEVIATIONS * error + 1e-6).all()
    np.testing.assert_allclose(found.deviation, 2 * spread, rtol=0.15, atol=1e-6)
    assert 0.99 < told["R-hat, median"] <= told["R-hat, largest"] < 1.1
    assert told["effective draws, least"] > 100


def test_it_is_found_once(place, monkeypatch):
    first = FEW.truth(case(), place)
    monkeypatch.setattr(Converged, "_sampled", None)
    for one, other in zip(first, FEW.truth(case(), place), strict=True):
        assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize(
    ("settings", "other"),
    [(Converged(8, 101, 20), case()), (FEW, case((2.5, 0.0, 0.0)))],
    ids=["draws", "digit"],
)
def test_another_is_found_for_other_settings_and_digits(place, monkeypatch, settings, other):
    FEW.truth(case(), place)
    monkeypatch.setattr(Converged, "_sampled", lambda *_: Truth(*[np.full(3, 7.0)] * 4))
    assert (settings.truth(other, place).mean == 7).all()


def test_noise_is_that_of_exact_draws():
    """A mean of n draws of deviation d is d / sqrt(n) off, as a root mean square."""
    truth = Truth(np.zeros(3), np.array([0.0, 3.0, 4.0]), *[np.zeros(3)] * 2)
    assert truth.noise(case(), 25) == pytest.approx(np.sqrt((9 + 16) / 2 / 25))
