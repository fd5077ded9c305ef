"""Images completed with Glow: in both charts, by the default sampler and by the paper's."""

import numpy as np
import pytest
import torch

from flow_cases import shaken
from plmcmc import FromObserved, NormalAuxiliary, Unconditional, calibrate, condition, methods
from plmcmc.data import CentreSquare, Independent
from plmcmc.flows import Absolute, ChannelsFirst, Glow, Preprocessed, Whiten, sample


def flow(chart=lambda glow: glow):
    glow = shaken(Glow((1, 4, 4), levels=2, steps=2, width=8, random_state=0), 0.15).eval()
    scale = Whiten(torch.full((1,), 100.0), torch.full((1,), 20.0))
    return Preprocessed([scale, ChannelsFirst()], chart(glow)).eval()


@pytest.mark.parametrize("chart", [lambda glow: glow, Absolute], ids=["relative", "absolute"])
def test_the_default_sampler_is_calibrated(chart):
    found = calibrate(flow(chart), Independent(0.3), 64, 15, random_state=0, thin=2)
    assert found.passed, str(found)


@pytest.mark.parametrize("chart", [lambda glow: glow, Absolute], ids=["relative", "absolute"])
@pytest.mark.parametrize("start", [FromObserved(), Unconditional(0.5)])
@pytest.mark.filterwarnings("ignore::plmcmc.ConvergenceWarning")
def test_the_papers_sampler_runs_and_keeps_what_was_seen(chart, start):
    own = flow(chart)
    with torch.no_grad():
        x = sample(own, 3, torch.Generator().manual_seed(0)).numpy()
    observed = CentreSquare(2)(x)
    # The paper's scales are of pixels in [0, 1]; these have a deviation of 20.
    method = methods.Metropolis(perturb=0.05, auxiliary=NormalAuxiliary(4.0))
    draws = condition(own, x, observed).sample(
        200, chains=2, method=method, start=start, random_state=0, progress=False
    )
    values = draws.values
    assert (draws.acceptance > 0.01).all()
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(
        values[:, :, observed], np.broadcast_to(x[observed], values[:, :, observed].shape)
    )
