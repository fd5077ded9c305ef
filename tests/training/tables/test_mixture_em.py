"""Mixtures fitted to rows with holes: likelihood rises, clusters are found, noise is no harm."""

import numpy as np
import pytest
import torch

from plmcmc.flows import GaussianMixture
from plmcmc.training.tables import mixture
from plmcmc.training.tables.copula import Copula
from plmcmc.training.tables.gaussian import Gaussian
from plmcmc.training.tables.mixture import fit_mixture
from plmcmc.training.tables.mixtures import MOST_ROWS, components_for, fit_mixtures


def two_clusters(rows=600, share=0.3, seed=0):
    """Return rows about (-2, -2, 0) and (2, 2, 0), some values missing, and which is which."""
    rng = np.random.default_rng(seed)
    second = rng.random(rows) < 0.25
    x = rng.standard_normal((rows, 3)) * 0.5
    x[:, :2] += np.where(second, 2.0, -2.0)[:, None]
    return torch.as_tensor(x), torch.as_tensor(rng.random(x.shape) >= share)


def seen_log_prob(found, x, observed):
    """Return the mean log-density of what is seen, row by row."""
    total = 0.0
    for row, seen in zip(x, observed, strict=True):
        parts = [
            torch.distributions.MultivariateNormal(mean[seen], covariance[seen][:, seen]).log_prob(
                row[seen]
            )
            if bool(seen.any())
            else torch.zeros((), dtype=x.dtype)
            for mean, covariance in zip(found.mean, found.covariance, strict=True)
        ]
        total += float(torch.logsumexp(found.weight.log() + torch.stack(parts), 0))
    return total / len(x)


def test_the_likelihood_of_what_is_seen_rises(monkeypatch):
    # Without what is added to scatters, and kept from them, steps are those of plain EM.
    monkeypatch.setattr(mixture, "PRIOR", 0.0)
    monkeypatch.setattr(mixture, "LEAST_VARIANCE", 0.0)
    monkeypatch.setattr(mixture, "LEAST_ROWS", 0.0)
    x, observed = two_clusters(rows=150)
    course = [
        seen_log_prob(
            fit_mixture(x, observed, 3, torch.Generator().manual_seed(0), steps=steps), x, observed
        )
        for steps in range(8)
    ]
    assert np.diff(course).min() > -1e-9
    assert course[-1] > course[0] + 0.3


def test_holes_are_not_read():
    x, observed = two_clusters(rows=60)
    noisy = torch.where(observed, x, torch.nan)
    one, other = (
        fit_mixture(rows, observed, 2, torch.Generator().manual_seed(0)) for rows in (x, noisy)
    )
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_clusters_are_found_with_their_shares():
    x, observed = two_clusters(rows=2000)
    found = fit_mixture(x, observed, 2, torch.Generator().manual_seed(1))
    order = found.mean[:, 0].argsort()
    torch.testing.assert_close(
        found.weight[order], torch.tensor([0.75, 0.25]).double(), atol=0.04, rtol=0
    )
    expected = torch.tensor([[-2.0, -2.0, 0.0], [2.0, 2.0, 0.0]]).double()
    torch.testing.assert_close(found.mean[order], expected, atol=0.1, rtol=0)
    eye = 0.25 * torch.eye(3).double().expand(2, 3, 3)
    torch.testing.assert_close(found.covariance[order], eye, atol=0.06, rtol=0)


def test_rows_of_one_value_have_what_is_added_to_their_scatter():
    rows, columns = 100, 4
    x = torch.full((rows, columns), 0.7).double()
    found = fit_mixture(
        x, torch.ones_like(x, dtype=torch.bool), 1, torch.Generator().manual_seed(0)
    )
    width = 0.003 * columns**2 / rows + 1e-4
    expected = width * torch.eye(columns).double()[None]
    torch.testing.assert_close(found.covariance, expected, rtol=1e-3, atol=1e-9)


def test_a_component_that_nobody_belongs_to_stays_finite():
    x, observed = two_clusters(rows=12)
    found = fit_mixture(x, observed, 12, torch.Generator().manual_seed(0))
    assert all(bool(part.isfinite().all()) for part in found)
    GaussianMixture.of([found])


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [(1372, 4, 40), (1030, 9, 14), (1599, 12, 16), (569, 30, 0), (60, 4, 0), (10**6, 20, 6)],
)
def test_more_rows_for_each_column_allow_more_components(rows, columns, expected):
    assert components_for(rows, columns) == expected


def test_of_many_rows_each_has_its_own(monkeypatch):
    asked = []

    def watched(scores, observed, count, source):
        asked.append(scores[:, 0])
        return fit_mixture(scores, observed, count, source, steps=1)

    monkeypatch.setattr("plmcmc.training.tables.mixtures.fit_mixture", watched)
    x = torch.arange(2.0 * MOST_ROWS).double()[:, None].expand(-1, 3)
    gaussian = Gaussian(torch.zeros(3).double(), torch.eye(3).double())
    copula = Copula(gaussian, [x / MOST_ROWS], torch.ones_like(x, dtype=torch.bool))
    flow = fit_mixtures(copula, 2, 0)
    assert (flow.members, [len(own) for own in asked]) == (2, [MOST_ROWS, MOST_ROWS])
    assert not torch.equal(*asked)
