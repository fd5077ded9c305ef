"""Observed moments are those of what was seen, and never a scale to divide by of 0 or NaN."""

import numpy as np
import pytest
import torch

from plmcmc.data import Incomplete, observed_moments
from plmcmc.flows import Whiten

NAN = float("nan")


def moments_of(columns: list[list[float]], dtype=torch.float64, **options):
    """Return mean and scale of every column as lists."""
    data = Incomplete.of(np.array(columns).T, dtype=dtype)
    moments = observed_moments(data, **options)
    assert moments.mean.dtype == moments.scale.dtype == dtype
    return moments.mean.tolist(), moments.scale.tolist()


def test_moments_are_those_of_the_seen_values():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, size=(500, 4))
    x[rng.random(x.shape) < 0.4] = NAN
    moments = observed_moments(Incomplete.of(x, dtype=torch.float64))
    np.testing.assert_allclose(moments.mean, np.nanmean(x, axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.scale, np.nanstd(x, axis=0), rtol=1e-12)


def test_moments_have_the_shape_of_an_event():
    moments = observed_moments(Incomplete.of(np.random.default_rng(0).normal(size=(9, 2, 3, 4))))
    assert moments.mean.shape == moments.scale.shape == (2, 3, 4)


def test_whitened_values_have_mean_0_and_scale_1():
    x = np.random.default_rng(0).normal(5, 3, size=(200, 3))
    x[::3, 1] = NAN
    data = Incomplete.of(x, dtype=torch.float64)
    white, _ = Whiten(*observed_moments(data)).to_latent(data.values)
    again = observed_moments(Incomplete(white, data.observed))
    torch.testing.assert_close(again.mean, torch.zeros(3).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(again.scale, torch.ones(3).double(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("constant", [0.0, 7.0, -1e8, 0.1, 1e-30])
def test_a_constant_column_is_only_centred(constant, dtype):
    # The mean of 0.1 seven times is not 0.1: the spread from rounding must not be divided by.
    mean, scale = moments_of([[constant] * 7, [NAN] + [constant] * 6], dtype)
    assert mean == pytest.approx([constant] * 2, rel=1e-7)
    assert scale == [1, 1]


def test_a_column_never_seen_gets_0_and_1():
    assert moments_of([[NAN] * 3, [1.0, 3.0, NAN]]) == ([0, 2], [1, 1])


def test_a_column_seen_once_is_only_centred():
    assert moments_of([[NAN, 4.0, NAN]]) == ([4], [1])


def test_a_single_row_is_only_centred():
    assert moments_of([[5.0], [NAN]]) == ([5, 0], [1, 1])


def test_what_is_behind_a_hole_does_not_count():
    values, observed = torch.tensor([[1.0], [3.0], [1e6]]), torch.tensor([[True], [True], [False]])
    moments = observed_moments(Incomplete(values, observed))
    assert (moments.mean.item(), moments.scale.item()) == (2, 1)


def test_the_floor_lifts_small_scales_only():
    columns = [[0.0, 0.002], [0.0, 2.0], [NAN, NAN]]
    assert moments_of(columns)[1] == pytest.approx([0.001, 1, 1])
    assert moments_of(columns, floor=0.05)[1] == pytest.approx([0.05, 1, 1])
    assert moments_of(columns, floor=3.0)[1] == [3, 3, 3]


def test_constant_columns_have_the_floor_where_there_is_one():
    columns = [[5.0, 5.0, 5.0], [NAN, 5.0, NAN]]
    assert moments_of(columns)[1] == [1, 1]
    # Seen once, a column says nothing of how it varies.
    assert moments_of(columns, floor=0.05)[1] == pytest.approx([0.05, 1])
    # Nor is rounding a spread.
    assert moments_of([[123456789.1] * 7], floor=1e-20)[1] == pytest.approx([1e-20])


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_a_large_offset_does_not_swallow_the_spread(offset):
    # A mean of squares less the square of the mean would lose it: 1e18 has steps of 128.
    mean, scale = moments_of([[offset - 0.5, offset + 0.5] * 50])
    assert mean == [offset]
    assert scale == pytest.approx([0.5], rel=1e-6)


def test_single_precision_is_summed_in_double():
    # 2**20 ones more or less around 2**12: a single-precision sum of these would be off.
    values = 4096 + torch.randint(0, 2, (2**20, 1), generator=torch.Generator().manual_seed(0))
    data = Incomplete.of(values.float())
    exact = values.double()
    moments = observed_moments(data)
    assert moments.mean.item() == pytest.approx(exact.mean().item(), rel=1e-7)
    assert moments.scale.item() == pytest.approx(exact.std(correction=0).item(), rel=1e-6)
