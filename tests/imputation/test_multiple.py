"""Several completed tables: each from a model of its own, shifted if asked."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from plmcmc.data import DataError
from plmcmc.flows import TabularFlow, Tilted, check_flow, log_prob
from plmcmc.imputation import FlowImputer
from plmcmc.training.tables.gaussian import Gaussian
from toy_tables import TINY, mixed, with_holes


@pytest.fixture(scope="module")
def short():
    """Few rows, of which a column is mostly missing: what is learned of it is uncertain."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=60)
    x = np.stack([first, 0.8 * first + 0.6 * rng.normal(size=60)], 1)
    x[20:, 1] = np.nan
    return FlowImputer(TINY, random_state=0).fit(x), x


def test_tables_differ_by_more_than_draws_from_one_model(short):
    imputer, x = short
    one = imputer._drawing.spread(x, 20).codes[:, 20:, 1].mean(1)
    # Of 40 draws a mean has a deviation of .6 / sqrt(40) = .1; of a mean of 20 rows, .2 more.
    for tables in (imputer.complete(x, 20), imputer.sample(x, 20)):
        assert np.std([table[20:, 1].mean() for table in tables]) > 1.3 * one.std()


def test_chains_begin_at_the_models_that_are_drawn():
    """However far these are from the one fitted: few rows may tell of a column, or of a level."""
    x = np.random.default_rng(0).normal(size=(210, 2))
    x[30:, 1] = np.nan
    imputer = FlowImputer(TINY, random_state=0).fit(x)
    model, drawing = imputer.model_, imputer._drawing
    model.flow.start_at(*model.gaussian)
    narrow = torch.diag(torch.tensor([1.0, 0.01]).double())
    others = Gaussian(torch.zeros(20, 2).double(), narrow.expand(20, 2, 2))
    short = replace(drawing, model=model._replace(others=others), effort=replace(TINY, burn_in=1))
    drawn = short.proper(x, 20).codes[:, 30:, 1]
    low, high = model.schema.columns[1].marginal.values(norm.ppf([0.05, 0.95]) / 10)
    # Three standard errors of the share of 20 times 180 draws.
    error = 3 * (0.9 * 0.1 / drawn.size) ** 0.5
    assert ((drawn > low) & (drawn < high)).mean() == pytest.approx(0.9, abs=error)


def test_draws_of_many_rows_are_from_the_one_model():
    """Nothing would be gained, and a model at each place takes longer."""
    x = np.random.default_rng(0).normal(size=(210, 2))
    x[5, 1] = np.nan
    imputer = FlowImputer(TINY, random_state=0).fit(x)
    np.testing.assert_array_equal(imputer.sample(x, 4), imputer._drawing.spread(x, 4).codes)
    imputer.rows_ = 190
    np.testing.assert_array_equal(imputer.sample(x, 4), imputer._drawing.proper(x, 4).codes)
    # More draws than models: chains show several states, and are no chains of one target.
    many = imputer.sample(x, 470)
    assert len(np.unique(many[:, 5, 1])) > 400
    assert not imputer.convergence_.checked


def test_completed_tables_are_of_the_type_and_keep_what_was_seen():
    table, holes = with_holes(mixed())
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    tables = imputer.complete(table, 3)
    assert len(tables) == 3
    for place, name in enumerate(table.columns):
        kept = ~holes[:, place]
        for own in tables:
            assert not own[name].isna().any()
            pd.testing.assert_series_equal(own[name][kept], table[name][kept])
    assert not tables[0].equals(tables[1])
    again = imputer.complete(table, 3)
    pd.testing.assert_frame_equal(tables[0], again[0])


def test_delta_shifts_what_was_imputed_and_nothing_else(short):
    imputer, x = short
    plain, shifted = imputer.complete(x, 2), imputer.complete(x, 2, delta={"1": 0.5})
    for before, after in zip(plain, shifted, strict=True):
        np.testing.assert_allclose(after[20:, 1], before[20:, 1] + 0.5)
        assert (after[:20] == before[:20]).all()
        assert (after[:, 0] == before[:, 0]).all()


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ({"weight": 1.0}, "delta names column 'weight'"),
        ([1.0, 0.0], "expected numbers by column name, such as .* got list"),
        ({"colour": 1.0}, "which is categorical: only numbers"),
        ({"size": np.inf}, "must be finite"),
        ({"size": "1"}, "delta of column 'size' must be a number; got '1'"),
    ],
)
def test_what_cannot_be_shifted_is_named(delta, message):
    table, _ = with_holes(mixed())
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    with pytest.raises(DataError, match=message):
        imputer.complete(table, 2, delta=delta)
    with pytest.raises(ValueError, match="m must be a whole number of at least 1"):
        imputer.complete(table, 0)


def moments(columns, seed):
    half = torch.randn(columns, 8, generator=torch.Generator().manual_seed(seed)).double()
    return half[:, 0], half @ half.T / 8


def test_a_tilted_gaussian_is_the_other_gaussian():
    flow = TabularFlow(3, members=2, couplings=2, width=4, random_state=0)
    own = moments(3, 0)
    flow.start_at(*own)
    others = [moments(3, seed) for seed in (1, 2, 3, 4)]
    means, covariances = (torch.stack(parts) for parts in zip(*others, strict=True))
    tilted = Tilted(flow.double(), *own, means, covariances)
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(9)).double()
    with torch.no_grad():
        found = log_prob(tilted, x)
    for place in range(8):
        expected = torch.distributions.MultivariateNormal(*others[place % 4])
        assert float(found[place]) == pytest.approx(float(expected.log_prob(x[place])), abs=1e-5)


def test_a_tilted_flow_keeps_its_promises():
    flow = TabularFlow(3, couplings=2, width=4, random_state=0).double()
    with torch.no_grad():
        flow.networks[0].weights[-1].normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    other = [part[None] for part in moments(3, 1)]
    tilted = Tilted(flow, *moments(3, 0), *other).eval()
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(2)).double()
    check_flow(tilted, x)
