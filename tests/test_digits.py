"""On a real flow: the default sampler converges and is calibrated, the paper's kernel is not."""

import numpy as np
import pytest

import plmcmc
from plmcmc.cli.demo import digits_of, trained_flow
from plmcmc.data import Independent
from plmcmc.posterior import ConvergenceWarning, StuckWarning

PASSES = 5000
CHAINS = 16


@pytest.fixture(scope="module")
def digits():
    return digits_of(0)


@pytest.fixture(scope="module")
def flow(digits):
    return trained_flow(digits.train, 0).flow


@pytest.fixture(scope="module")
def posterior(digits, flow):
    x = digits.test[:8]
    return plmcmc.condition(flow, x, Independent(0.5)(x, 0))


def test_every_missing_pixel_converges_within_seven_thousand_passes(posterior):
    # Any warning is an error here: R-hat exceeds 1.05 nowhere.
    draws = posterior.sample(230, chains=CHAINS, random_state=0)
    # Of which scouts and hops take 1,900.
    assert draws.passes <= 7000
    assert np.nanmax(draws.rhat()) <= 1.05


@pytest.mark.filterwarnings("ignore::plmcmc.posterior.quality_warnings.StuckWarning")
def test_the_paper_s_kernel_does_not(posterior):
    with pytest.warns(ConvergenceWarning):
        draws = posterior.sample(
            PASSES // 4, warmup=PASSES // 4, chains=CHAINS, method="metropolis", random_state=0
        )
    assert draws.passes == PASSES // 4 * 4
    assert np.nanmedian(draws.rhat()) > 1.5


def test_the_default_is_calibrated_and_the_paper_s_kernel_is_not(flow):
    found = plmcmc.calibrate(flow, Independent(0.5), rows=96, random_state=0)
    assert found.passed
    # A sixth of the rows convicts it: its chains still sit where they started.
    paper = plmcmc.calibrate(
        flow, Independent(0.5), rows=16, method="metropolis", warmup=PASSES // 2, random_state=0
    )
    assert not paper.passed


def test_stuck_chains_are_named(posterior):
    with (
        pytest.warns(StuckWarning, match="a chain never accepted"),
        pytest.warns(ConvergenceWarning),
    ):
        posterior.sample(30, warmup=0, method="metropolis", random_state=0)
