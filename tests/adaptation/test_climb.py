"""The last steps of a climb, of the metric's own size."""

import numpy as np
import torch

import plmcmc
from plmcmc.adaptation.climb import settled
from plmcmc.data import Incomplete
from plmcmc.kernels import Frame, Holes
from plmcmc.kernels.gradient import gradient_start
from plmcmc.target import ConditionalTarget


class Overflowing(plmcmc.Linear):
    """A flow whose density is infinite at the very top."""

    def to_latent(self, x):
        z, log_det = super().to_latent(x)
        return z, torch.where(x[:, 0].abs() < 0.1, torch.inf, log_det)


def test_it_does_not_end_where_the_density_overflows():
    flow = Overflowing.of_moments(torch.zeros(2).double(), torch.eye(2).double())
    assert isinstance(flow, Overflowing)
    data = Incomplete.of([[np.nan, 1.0]])
    target, holes = ConditionalTarget(flow, data), Holes.of(data.observed, 1)
    one = torch.ones(1, 1, 1).double()
    with torch.no_grad():
        state = gradient_start(target, torch.tensor([[2.0, 1.0]]).double())
        found = settled(target, state, Frame(holes, torch.zeros(1, 1).double(), one, one))
    # A chain that begins at an infinite density never leaves it.
    assert bool(torch.isfinite(found.log_density).all())
