"""What is found out about a flow once: from its own samples, of which some may overflow."""

import torch

from plmcmc.flows import RealNVP
from plmcmc.posterior.batch import Probe


class Overflowing(RealNVP):
    """Decodes no latents whose first coordinate is above 1."""

    def to_data(self, z):
        x, log_det = super().to_data(z)
        return torch.where(z[:, :1] > 1, torch.inf, x), log_det


def test_samples_are_those_that_are_finite():
    with torch.no_grad():
        found = Probe(Overflowing(2, width=4, random_state=0).eval(), 64, shared=True).samples
    assert bool(torch.isfinite(found).all())
    # Each is below 1 with probability .8413; four deviations of how many there are.
    assert abs(len(found) - 0.8413 * 4096) < 4 * (0.8413 * 0.1587 * 4096) ** 0.5
