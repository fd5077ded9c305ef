"""What `diagnose` finds: convergence where there is, none where there is not, honest intervals."""

from dataclasses import replace

import numpy as np
import pytest

from plmcmc.imputation import Effort, FlowImputer
from plmcmc.training.tabular import TableTraining
from toy_tables import TINY, mixed, with_holes

EFFORT = Effort(
    members=2,
    couplings=2,
    width=16,
    training=TableTraining(updates=100, batch=128),
    chains=4,
    burn_in=30,
    states=150,
)


@pytest.fixture(scope="module")
def gaussian():
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(3), 0.6 + 0.4 * np.eye(3), 400)
    x[rng.random(x.shape) < 0.3] = np.nan
    return FlowImputer(EFFORT, random_state=0).fit(x), x


def test_a_gaussian_table_converges_and_its_intervals_cover(gaussian):
    imputer, x = gaussian
    found = imputer.diagnose(x)
    assert found.rows == 400
    assert (found.converged > 0.9).all()
    assert (found.rhat < 1.05).all()
    assert (found.ess > 50).all()
    # Some 84 hidden values a column: three standard errors of .9 are .1.
    assert (np.abs(found.coverage - 0.9) < 0.12).all()
    assert "have converged" in found.verdict
    assert found.summary().index.tolist() == ["0", "1", "2"]


def test_chains_too_short_are_told_of(gaussian):
    imputer, x = gaussian
    short = FlowImputer(replace(EFFORT, states=12, burn_in=0, chains=2), random_state=0)
    short.layout_, short.model_, short.seed_ = imputer.layout_, imputer.model_, 0
    short.effort_ = short.effort
    short.n_features_in_ = 3
    found = short.diagnose(x)
    assert (found.converged < 0.6).all()
    assert "try effort='thorough'" in found.verdict


def test_every_kind_of_column_and_columns_without_holes():
    table, _ = with_holes(mixed())
    table["size"] = mixed()["size"]
    found = FlowImputer(TINY, random_state=0).fit(table).diagnose(table)
    assert found.holes[0] == 0
    assert np.isnan(found.converged[0])
    assert (found.coverage >= 0).all()
    assert (found.coverage <= 1).all()
