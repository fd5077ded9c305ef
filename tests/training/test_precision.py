"""Inverse covariances: exact where there is one, and close to it where columns repeat others."""

import pytest
import torch

from plmcmc.training.tables.gaussian import SINGULAR, Gaussian, conditionals, precision_of

# Columns in units that differ by millions.
UNITS = torch.tensor([1e-3, 1.0, 1e3], dtype=torch.float64)


def covariance(correlation):
    """Return one of three columns, the first two correlated."""
    found = torch.eye(3, dtype=torch.float64)
    found[0, 1] = found[1, 0] = correlation
    return found * UNITS * UNITS[:, None]


@pytest.mark.parametrize("correlation", [0.5, 0.999, -0.99999])
def test_columns_that_leave_something_free_are_inverted_exactly(correlation):
    # Their least eigenvalue is far above what is loosened.
    found = precision_of(covariance(correlation)) * UNITS * UNITS[:, None]
    inside = torch.tensor([[1.0, -correlation], [-correlation, 1.0]]) / (1 - correlation**2)
    torch.testing.assert_close(found[:2, :2], inside.double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(found[2], torch.tensor([0.0, 0.0, 1.0]).double())


def test_a_repeated_column_is_told_by_the_other_nearly_surely():
    repeated = Gaussian(torch.zeros(3).double(), covariance(1.0))
    gain, root = conditionals(repeated, torch.tensor([[True, False, True]]))
    assert float(gain[0, 1, 0] / (UNITS[1] / UNITS[0])) == pytest.approx(1.0, abs=1e-6)
    # Along their difference the variance is now SINGULAR times the largest eigenvalue, 2.
    spread = float(root[0, 1, 1] / UNITS[1])
    assert spread == pytest.approx((4 * SINGULAR) ** 0.5, rel=1e-3)
    assert spread < 1e-3
