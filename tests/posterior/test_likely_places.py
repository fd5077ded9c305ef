"""Places to look for modes at: the flow's samples that are most like what is seen of a row."""

import numpy as np
import pytest
import torch

import plmcmc
from exact import shaken
from plmcmc.data import Incomplete
from plmcmc.flows import BrokenFlow
from plmcmc.flows.mixture import Components, GaussianMixture
from plmcmc.posterior.likely_places import alike, likely_places
from plmcmc.posterior.problem import problem_of
from plmcmc.rng import Streams
from plmcmc.target import Warp
from toys import Bounded

SAME = Warp(*(torch.full((3,), number) for number in (0.0, 1.0, 0.0, 1.0)))


def test_what_is_seen_decides_and_holes_do_not():
    samples = torch.tensor([[0.0, 0.0, 9.0], [1.0, 1.0, 0.0], [5.0, 5.0, 0.0]])
    data = Incomplete.of([[0.1, 0.1, np.nan], [5.0, np.nan, np.nan], [np.nan, 0.9, 0.0]])
    assert alike(samples, data, SAME, 2).tolist() == [[0, 1], [2, 1], [1, 2]]


def test_readings_count_as_seen():
    samples = torch.tensor([[0.0, 0.0, 9.0], [1.0, 1.0, 0.0]])
    data = Incomplete.of([[0.4, np.nan, 8.0]], noise=[[0.0, 0.0, 0.5]])
    assert alike(samples, data, SAME, 1).tolist() == [[0]]


@pytest.mark.parametrize(("chains", "times"), [(4, 8), (5000, 1)])
def test_every_place_has_the_observed_values_of_its_row(chains, times):
    flow = shaken(plmcmc.RealNVP(3, width=8, random_state=0), 0.7).float()
    x = np.array([[0.5, np.nan, np.nan], [np.nan, -1.0, np.nan]], dtype=np.float32)
    batch = problem_of(flow, x).batch(torch.arange(2), chains)
    with torch.no_grad():
        streams = Streams.of_rows(0, "test", 2, chains=chains)
        found = torch.stack(list(likely_places(batch, streams, times)))
    assert found.shape == (times, 2 * chains, 3)
    assert bool(torch.isfinite(found).all())
    first, second = found.unflatten(1, (2, chains)).unbind(1)
    assert bool((first[..., 0] == 0.5).all())
    assert bool((second[..., 1] == -1.0).all())
    # Of one row, all are different, as long as there are samples.
    distinct = min(times * chains, 4096)
    assert len(first.flatten(0, 1).unique(dim=0)) == distinct


def clusters(holes, seen=4, count=20, seed=0):
    """Many clusters, of which two share what is seen, and rows that may be of either."""
    source = torch.Generator().manual_seed(seed)
    mean = 3 * torch.randn(count, seen + holes, generator=source)
    mean[:, :seen] = mean[::2, :seen].repeat_interleave(2, 0)
    weights = torch.full((count,), 1 / count)
    spread = 0.25 * torch.eye(seen + holes).repeat(count, 1, 1)
    flow = GaussianMixture.of([Components(weights, mean, spread)]).double()
    x = np.full((8, seen + holes), np.nan)
    noise = np.random.default_rng(seed).normal(size=(8, seen))
    x[:, :seen] = mean[:16:2, :seen].numpy() + 0.5 * noise
    return flow, x, mean


def test_chains_find_both_of_the_clusters_that_a_row_may_be_of():
    flow, x, mean = clusters(holes=4)
    draws = plmcmc.condition(flow, x).sample(200, chains=4, random_state=0)
    one, other = (mean[start:16:2, 4:].numpy() for start in (0, 1))
    off = [np.square(draws.values[..., 4:] - centre).sum(-1) for centre in (one, other)]
    share = (off[0] < off[1]).mean((0, 1))
    # Without scouts, in half of the rows all chains are in the same cluster.
    assert (np.abs(share - 0.5) < 0.15).all()
    assert (np.nanmax(draws.rhat(), 1) < 1.05).all()


def test_the_evidence_where_an_entry_nearly_follows_from_another():
    width = 1e-4
    covariance = torch.tensor([[1.0, 1.0], [1.0, 1 + width**2]], dtype=torch.float64)
    flow = plmcmc.Linear.of_moments(torch.zeros(2).double(), covariance)
    seen = np.linspace(-2, 2, 16)
    x = np.stack([np.full(16, np.nan), seen], 1)
    found = plmcmc.condition(flow, x).log_evidence(random_state=0)
    expected = -0.5 * seen**2 / (1 + width**2) - 0.5 * np.log(2 * np.pi * (1 + width**2))
    # Walkers that start where a climb left them, a hundred widths away, have errors of .3.
    assert np.abs(found.log_evidence - expected).max() < 0.01


def test_rows_without_density_are_named():
    x = np.array([[np.nan, 0.4], [np.nan, 9.0]])
    with pytest.raises(BrokenFlow, match="where chains of row 1 start"):
        plmcmc.condition(Bounded(), x).log_evidence(random_state=0)
