"""Values read with an error: sampled too, exactly, and the limit of no error is the exact case."""

import numpy as np
import pandas as pd
import pytest
import torch

import plmcmc
from exact import shaken
from plmcmc.adaptation import Warmup
from plmcmc.data import DataError, Incomplete
from plmcmc.flows import Linear, RealNVP, log_prob
from toys import Mixture, quiet

COVARIANCE = torch.tensor([[1.0, 0.8, 0.3], [0.8, 2.0, 0.5], [0.3, 0.5, 1.5]]).double()
MEAN = torch.tensor([0.5, -1.0, 2.0]).double()
X = np.array([[1.2, 0.4, np.nan], [np.nan, -3.0, 2.5], [0.1, 0.2, 0.3]])
NOISE = np.array([0.7, 0.4, 0.0])


def linear():
    return Linear.of_moments(MEAN, COVARIANCE).double()


def closed_form(x, noise):
    """Return mean, covariance and evidence of a Gaussian row of which readings are `x`."""
    seen = ~np.isnan(x)
    covariance, mean = COVARIANCE.numpy(), MEAN.numpy()
    inner = covariance[np.ix_(seen, seen)] + np.diag(noise[seen] ** 2)
    gain = covariance[:, seen] @ np.linalg.inv(inner)
    off = x[seen] - mean[seen]
    evidence = -0.5 * (
        off @ np.linalg.solve(inner, off) + np.linalg.slogdet(2 * np.pi * inner).logabsdet
    )
    return mean + gain @ off, covariance - gain @ covariance[seen], evidence


@pytest.mark.parametrize(("method", "draws", "chains"), [("auto", 200, 16), ("elliptical", 800, 4)])
def test_moments_are_those_of_the_closed_form(method, draws, chains):
    posterior = plmcmc.condition(linear(), X, noise=NOISE)
    draws = posterior.sample(draws, chains=chains, method=method, random_state=0)
    flat = draws.values.reshape(-1, *X.shape)
    worth = np.nan_to_num(draws.ess(), nan=1.0)
    for row in range(len(X)):
        mean, covariance, _ = closed_form(X[row], NOISE)
        spread = np.sqrt(np.diag(covariance).clip(0))
        free = ~draws.observed[row]
        assert free.tolist() == (np.isnan(X[row]) | (NOISE > 0)).tolist()
        error = spread / np.sqrt(worth[row])
        assert (np.abs(flat[:, row].mean(0) - mean) <= 4.5 * error + 1e-12).all()
        found = draws.std()[row][free] / spread[free]
        assert (np.abs(found - 1) < 4.5 / np.sqrt(worth[row][free])).all()
        # What was read exactly stays, to the last bit.
        assert (flat[:, row][:, ~free] == X[row][~free]).all()


def test_the_metric_knows_the_errors():
    # Exact turns in the right metric; in one that leaves the errors out, .78 are accepted.
    draws = plmcmc.condition(linear(), X, noise=NOISE).sample(
        60, chains=16, method=plmcmc.methods.Pullback(Warmup(jumps=False)), random_state=0
    )
    assert draws.acceptance.mean(0).min() > 0.95


def test_the_evidence_and_the_conditional_density_know_them_too():
    posterior = plmcmc.condition(linear(), X, noise=NOISE)
    found = posterior.log_evidence(random_state=0)
    expected = np.array([closed_form(row, NOISE)[2] for row in X])
    assert (np.abs(found.log_evidence - expected) <= 4 * found.standard_error + 1e-6).all()
    x = np.where(np.isnan(X), 0.0, X) + 0.1
    density = posterior.log_prob(x, random_state=0)
    for row in range(len(X)):
        mean, covariance, _ = closed_form(X[row], NOISE)
        free = np.isnan(X[row]) | (NOISE > 0)
        off, inner = (x[row] - mean)[free], covariance[np.ix_(free, free)]
        wanted = -0.5 * (
            off @ np.linalg.solve(inner, off) + np.linalg.slogdet(2 * np.pi * inner).logabsdet
        )
        assert abs(density[row] - wanted) <= 4 * found.standard_error[row] + 1e-6


def test_small_errors_come_near_the_exact_case_and_none_is_it():
    flow = shaken(RealNVP(3, width=16, random_state=0).double(), 0.5)
    exact = plmcmc.condition(flow, X).sample(100, chains=16, random_state=0)
    none = plmcmc.condition(flow, X, noise=0.0).sample(100, chains=16, random_state=0)
    assert (none.values == exact.values).all()
    assert (none.observed == exact.observed).all()
    near = plmcmc.condition(flow, X, noise=1e-3).sample(100, chains=16, random_state=1)
    seen = exact.observed
    assert np.abs(near.mean() - X)[seen].max() < 1e-3
    assert np.abs(near.std()[seen] / 1e-3 - 1).max() < 0.15
    error = exact.std() * np.sqrt(1 / exact.ess() + 1 / near.ess())
    assert (np.abs(near.mean() - exact.mean()) < 4.5 * error)[~seen].all()


@pytest.mark.parametrize("noise", [1e-5, 1e-8])
def test_good_readings_do_not_spoil_the_holes_beside_them(noise):
    # The metric's entries differ by 16 orders here.
    posterior = plmcmc.condition(linear(), X, noise=[noise, noise, 0.5])
    draws = posterior.sample(50, chains=16, random_state=0)
    assert np.nanmin(draws.ess()[draws.std() > 2 * noise]) > 200
    exact = plmcmc.condition(linear(), X).log_evidence(random_state=0).log_evidence
    near = plmcmc.condition(linear(), X, noise=noise).log_evidence(random_state=0)
    assert (np.abs(near.log_evidence - exact) < 4.5 * near.standard_error + 1e-4).all()


def test_a_poor_reading_leaves_both_modes():
    # Half of the mass on each side; a reading of 5 with an error of 20 says little of which.
    flow = Mixture(features=2, gap=6.0, weight=0.5, ratio=1.0)
    x, noise = np.array([[5.0, 0.0]]), np.array([20.0, 0.0])
    chains = 256
    draws = plmcmc.condition(flow, x, noise=noise).sample(120, chains=chains, random_state=0)
    grid = torch.linspace(-12, 12, 4001).double()
    points = torch.stack([grid, torch.zeros_like(grid)], 1)
    data = Incomplete.of(x.repeat(len(grid), 0), None, noise, dtype=torch.float64)
    weights = (log_prob(flow, points) + data.log_likelihood(points)).softmax(0)
    expected = float(weights[grid > 0].sum())
    upper = (draws.values[..., 0, 0] > 0).astype(float)
    error = upper.mean(1).std(ddof=1) / chains**0.5
    assert 0.5 < expected < 0.6
    assert abs(upper.mean() - expected) < 4.1 * error


@pytest.mark.parametrize("method", ["auto", "hmc"])
def test_noise_that_differs_by_row_is_its_own_row_s_in_every_chunk(method):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3))
    x[::3, 1], x[5] = np.nan, 0.3
    noise = rng.uniform(0, 0.5, x.shape) * (rng.random(x.shape) < 0.7)
    noise[5] = 0.0
    options = {"chains": 2, "warmup": 8, "method": method, "random_state": 0}
    with quiet():
        posterior = plmcmc.condition(linear(), x, noise=noise)
        whole = posterior.sample(4, **options).values
        parts = posterior.sample(4, chunk_rows=64, **options).values
        # The first block: 64 rows, and one that needs no chain.
        alone = plmcmc.condition(linear(), x[:65], noise=noise[:65]).sample(4, **options).values
    assert (whole == parts).all()
    assert (whole[:, :, :65] == alone).all()


def test_noise_finer_than_rounding_is_none_and_it_says_so():
    with pytest.warns(UserWarning, match="below the resolution of float32") as found:
        posterior = plmcmc.condition(linear().float(), X, noise=1e-8)
    # The caller's line, not one inside plmcmc.
    assert found[0].filename == __file__
    assert posterior.data.noise is None or float(posterior.data.noise.max()) == 0
    with pytest.warns(UserWarning, match="treated as exact"):
        assert plmcmc.condition(linear(), X, noise=1e-50).data.noise is None


@pytest.mark.parametrize(
    "kind", [lambda n: torch.tensor(n, requires_grad=True), lambda n: pd.Series(n, dtype="Float64")]
)
def test_noise_in_any_kind_of_array(kind):
    expected = plmcmc.condition(linear(), X, noise=NOISE).data.noise
    assert torch.equal(plmcmc.condition(linear(), X, noise=kind(NOISE)).data.noise, expected)


def test_another_noise_is_another_run(tmp_path):
    options = {"chains": 2, "warmup": 4, "random_state": 0, "checkpoint": tmp_path / "run"}
    with quiet():
        plmcmc.condition(linear(), X, noise=0.1).sample(4, **options)
    with pytest.raises(ValueError, match="data"):
        plmcmc.condition(linear(), X, noise=0.2).sample(4, **options)


def test_on_a_curved_flow_draws_follow_the_quadrature():
    flow = shaken(RealNVP(2, width=16, random_state=1).double(), 0.7)
    x = np.array([[0.8, np.nan]])
    draws = plmcmc.condition(flow, x, noise=[0.5, 0.0]).sample(125, chains=16, random_state=0)
    grid = torch.linspace(-8, 8, 321).double()
    points = torch.cartesian_prod(grid, grid)
    data = Incomplete.of(x.repeat(len(points), 0), None, [0.5, 0.0], dtype=torch.float64)
    with torch.no_grad():
        weights = (log_prob(flow, points) + data.log_likelihood(points)).softmax(0)
    mean = weights @ points
    spread = (weights @ (points - mean).square()).sqrt().numpy()
    error = spread / np.sqrt(draws.ess()[0])
    assert (np.abs(draws.mean()[0] - mean.numpy()) < 4.5 * error).all()
    assert (np.abs(draws.std()[0] / spread - 1) < 9 / np.sqrt(draws.ess()[0])).all()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (-1.0, r"noise must be a standard deviation, from 0 to .*; got -1.0 at row 0, column 0"),
        (1e300 * 1e10, "got inf at row 0, column 0"),
        ([0.1, np.nan, 0.1], "got nan at row 0, column 1: 0 means that a value is exact"),
        ([0.1, 0.2], r"one for each value of x \(shape \(3, 3\)\); got shape \(2,\)"),
        ("small", r"noise must be one standard deviation, .*; got shape \(\)"),
    ],
)
def test_what_is_no_deviation_is_refused(noise, message):
    with pytest.raises(DataError, match=message):
        plmcmc.condition(linear(), X, noise=noise)


def test_where_nothing_was_read_the_noise_is_not_read_either():
    noise = np.where(np.isnan(X), np.nan, 0.5)
    assert plmcmc.condition(linear(), X, noise=noise).data.noise is not None
