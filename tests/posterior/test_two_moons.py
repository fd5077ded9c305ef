"""Two moons: a trained flow whose conditionals have one or two modes, of weights known by sums."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons

import plmcmc
from plmcmc.data import Incomplete, observed_moments
from plmcmc.flows import Preprocessed, RealNVP, Whiten, log_prob
from plmcmc.posterior import ConvergenceWarning
from plmcmc.posterior.methods import DataMetropolis
from plmcmc.training import fit_flow

# Given the first coordinate, the second lies on the upper moon, the lower, or either.
GIVEN = np.linspace(-0.5, 1.5, 5)
GRID = torch.linspace(-2.5, 3.0, 4001).double()


@pytest.fixture(scope="module")
def flow():
    x = make_moons(4000, noise=0.08, random_state=0)[0]
    inner = RealNVP(2, couplings=8, depth=2, width=48, random_state=0)
    moons = Preprocessed([Whiten(*observed_moments(Incomplete.of(x)))], inner).double()
    fit_flow(moons, x, epochs=40, batch_size=200, learning_rate=3e-3, random_state=0)
    return moons


@pytest.fixture(scope="module")
def truth(flow):
    """For every given value, the density of the other on the grid, as weights that sum to 1."""
    with torch.no_grad():
        density = [log_prob(flow, torch.stack([torch.full_like(GRID, x), GRID], 1)) for x in GIVEN]
    return torch.stack(density).softmax(1).numpy()


def valley(weights):
    """Return the lowest point between the two highest modes, and the weight above it."""
    inner = np.arange(1, len(weights) - 1)
    peaks = inner[(weights[1:-1] > weights[:-2]) & (weights[1:-1] >= weights[2:])]
    first, second = sorted(peaks[np.argsort(weights[peaks])[-2:]])
    lowest = first + weights[first:second].argmin()
    return float(GRID[lowest]), float(weights[lowest:].sum())


def conditional(flow):
    return plmcmc.condition(flow, np.stack([GIVEN, np.full_like(GIVEN, np.nan)], 1))


def test_the_flow_has_two_modes_in_the_middle(truth):
    _, above = valley(truth[len(GIVEN) // 2])
    assert 0.2 < above < 0.8


def test_modes_get_their_weights(flow, truth):
    chains = 64
    draws = conditional(flow).sample(75, chains=chains, random_state=0)
    y = draws.values[..., 1]
    for row, weights in enumerate(truth):
        border, above = valley(weights)
        inside = (y[:, :, row] > border).astype(float)
        # Chains are independent: their means' spread is the standard error, of 63 degrees.
        error = max(inside.mean(1).std(ddof=1) / chains**0.5, 1 / inside.size)
        assert abs(inside.mean() - above) < 3 * error
        mean = float((torch.as_tensor(weights) * GRID).sum())
        spread = float((torch.as_tensor(weights) * (GRID - mean).square()).sum().sqrt())
        assert abs(y[:, :, row].mean() - mean) < 4.5 * spread / draws.ess()[row, 1] ** 0.5


def test_a_local_walk_stays_in_its_moon_and_it_says_so(flow, truth):
    with pytest.warns(ConvergenceWarning):
        draws = conditional(flow).sample(
            300, chains=8, method=DataMetropolis(step=0.05), random_state=0
        )
    middle = len(GIVEN) // 2
    border, _ = valley(truth[middle])
    above = draws.values[:, :, middle, 1] > border
    # Most chains never see the other moon.
    assert np.isin(above.mean(1), (0.0, 1.0)).mean() > 0.5
    assert draws.rhat()[middle, 1] > 1.05
