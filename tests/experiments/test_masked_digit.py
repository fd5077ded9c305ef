"""One digit with half of it hidden: the task in whitened units, and back in pixels."""

import numpy as np
import pytest

from plmcmc.data import DataError
from plmcmc.experiments.digits.masked import MaskedDigit, masked_digit
from plmcmc.experiments.sources import embedded_digits
from plmcmc.experiments.study import Place


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    path = tmp_path_factory.mktemp("masked")
    return masked_digit("smoke").case(Place(path, path, progress=False))


def test_the_paper_s_task_hides_384_pixels_of_784():
    task = masked_digit("full")
    assert (task.digit, task.block, task.every, task.embedded) == (0, 4, 1, False)
    assert (task.flow.width, task.flow.epochs) == (1000, 1000)


def test_the_row_is_whitened_and_has_holes(case):
    seen = case.observed
    assert 0.4 < seen.mean() < 0.6
    assert case.row.shape == (1, 36)
    assert np.isnan(case.row[0, ~seen]).all()
    np.testing.assert_allclose(case.pixels(case.row)[0, seen], case.truth[seen], atol=1e-12)


def test_whitening_is_of_the_training_set(case):
    """Also in pixels that never vary, which are only centred."""
    pixels = embedded_digits().train[:, ::5, ::5].reshape(-1, 36).astype(np.float64)
    np.testing.assert_allclose(case.mean, pixels.mean(0), atol=1e-6)
    spread = pixels.std(0)
    assert (spread == 0).any()
    np.testing.assert_allclose(case.scale, np.where(spread > 0, spread, 1), atol=1e-6)


def test_errors_are_of_hidden_pixels_only(case):
    off = np.where(case.observed, 100.0, 0.25)
    assert case.error(case.truth + off, case.truth) == pytest.approx(0.25)
    both = np.stack([case.truth, case.truth + off])
    np.testing.assert_allclose(case.error(both, case.truth), [0, 0.25])


def test_real_digits_need_a_directory(tmp_path):
    with pytest.raises(DataError, match="pass --data with a directory"):
        MaskedDigit().case(Place(tmp_path, tmp_path))
