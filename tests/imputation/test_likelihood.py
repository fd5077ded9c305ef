"""`log_prob`: exact where the model is Gaussian, a mass for ties and levels, and it sums to one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import multivariate_normal, norm

from plmcmc.imputation import FlowImputer, learning
from plmcmc.imputation.likelihood import log_likelihood
from plmcmc.kernels.mixture_draws import seen_log_prob
from plmcmc.training.tables.validation import ScoreHistory
from toy_tables import TINY, mixed, with_holes


@pytest.fixture(scope="module")
def gaussian():
    """A fitted imputer of continuous columns whose flow is put back to its Gaussian."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(3), 0.6 + 0.4 * np.eye(3), 300)
    x[rng.random(x.shape) < 0.3] = np.nan
    imputer = FlowImputer(TINY, random_state=0).fit(x)
    with torch.no_grad():
        for network in imputer.model_.flow.networks:
            network.weights[-1].zero_()
            network.biases[-1].zero_()
    imputer.model_.flow.start_at(*imputer.model_.gaussian)
    return imputer, x


def test_a_gaussian_s_is_known(gaussian):
    imputer, x = gaussian
    model = imputer.model_
    low, _ = model.schema.regions(x)
    mean, covariance = (part.numpy() for part in model.gaussian)
    expected = []
    for scores in low:
        seen = np.isfinite(scores)
        own = (mean[seen], covariance[np.ix_(seen, seen)])
        expected.append(multivariate_normal(*own).logpdf(scores[seen]) if seen.any() else 0.0)
    slopes = model.schema.log_slope(x)
    # From the Gaussian to itself no walker gains or loses, but in rounding.
    np.testing.assert_allclose(imputer.log_prob(x), np.array(expected) + slopes, atol=1e-3)
    assert imputer.score(x) == pytest.approx(np.mean(expected + slopes), abs=1e-3)


def test_the_density_of_a_column_integrates_to_one(gaussian):
    imputer, _ = gaussian
    atoms = imputer.model_.schema.columns[0].marginal.atoms
    middles = (atoms[1:] + atoms[:-1]) / 2
    rows = np.full((len(middles), 3), np.nan)
    rows[:, 0] = middles
    total = np.sum(np.exp(imputer.log_prob(rows)) * np.diff(atoms))
    assert total == pytest.approx(1.0, abs=0.05)


def test_levels_and_ties_have_probabilities_that_add_up_to_one():
    table, _ = with_holes(mixed(200))
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    for name in ("colour", "flag", "grade", "count"):
        levels = table[name].dropna().unique()
        rows = pd.DataFrame(np.nan, index=range(len(levels)), columns=table.columns)
        rows = rows.astype(object).where(pd.notna(rows), None)
        rows[name] = list(levels)
        codes = imputer.layout_.codes(rows.astype(table.dtypes.to_dict()))
        chance = np.exp(log_likelihood(imputer.model_, codes, 0))
        assert chance.sum() == pytest.approx(1.0, abs=0.05), name


def test_mixtures_densities_are_known(monkeypatch):
    """Of what is seen at all a mixture knows the density, and of ties the mean over intervals."""
    monkeypatch.setattr(ScoreHistory, "joined_by", lambda self, scores: True)
    monkeypatch.setattr(learning, "LEAST_HIDDEN", 0)
    monkeypatch.setattr(learning, "FOLLOWS", 0)
    table, _ = with_holes(mixed(400))
    model = FlowImputer(replace(TINY, mixtures=2), random_state=0).fit(table).model_
    assert model.mixture is not None
    layout = FlowImputer(TINY, random_state=0).fit(table).layout_
    name = "grade"
    levels = table[name].dropna().unique()
    rows = pd.DataFrame(np.nan, index=range(len(levels)), columns=table.columns)
    rows = rows.astype(object).where(pd.notna(rows), None)
    rows[name] = list(levels)
    codes = layout.codes(rows.astype(table.dtypes.to_dict()))
    found = [np.exp(log_likelihood(model, np.repeat(codes, 50, 0), seed)) for seed in (0, 1)]
    assert np.mean(found) * len(levels) == pytest.approx(1.0, abs=0.03)
    # Of points nothing is drawn: a member that is all of the model has its own density.
    size = np.full((2, codes.shape[1]), np.nan)
    size[:, list(table.columns).index("size")] = [0.3, -1.0]
    own = model.schema.regions(size)[0]
    place = int(np.isfinite(own[0]).argmax())
    inward = model.mixture.inward.double().tril()
    covariance = torch.linalg.inv(inward.mT @ inward)
    spread = covariance[..., place, place].sqrt().numpy()
    weight = model.mixture.log_weight.double().exp().numpy()
    mean = model.mixture.mean[..., place].double().numpy()
    expected = (weight * norm(mean, spread).pdf(own[:, place, None, None])).sum(2).mean(1)
    reference = model.references(size).of(torch.arange(2))
    position = torch.zeros(4, model.schema.width)
    marginal = seen_log_prob(model.mixture, reference, position).exp().mean(1)
    np.testing.assert_allclose(marginal.numpy(), expected, rtol=1e-4)
    # Two members are flows, and two mixtures.
    flow = np.exp(log_likelihood(model._replace(mixture=None), size, 0))
    slope = np.exp(model.schema.log_slope(size))
    np.testing.assert_allclose(
        np.exp(log_likelihood(model, size, 0)), 0.5 * (flow + expected * slope), rtol=1e-3
    )


def test_what_does_not_fit_is_less_likely():
    rng = np.random.default_rng(1)
    first = rng.normal(size=400)
    x = np.stack([first, first + 0.1 * rng.normal(size=400)], 1)
    imputer = FlowImputer(TINY, random_state=0).fit(x)
    likely, unlikely = imputer.log_prob(np.array([[1.0, 1.0], [1.0, -1.0]]))
    assert likely > unlikely + 10
    # Of the second alone nothing is strange.
    alone = imputer.log_prob(np.array([[np.nan, 1.0]]))[0]
    assert alone == pytest.approx(norm(0, 1.005).logpdf(1.0), abs=0.5)
