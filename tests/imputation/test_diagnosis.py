"""What `diagnose` finds: convergence where there is, none where there is not, honest intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from plmcmc.imputation import FlowImputer, sampling
from plmcmc.imputation.diagnosis import Diagnosis
from plmcmc.kernels import Metropolis, Turns
from plmcmc.posterior import ConvergenceWarning
from plmcmc.training.tables.settings import TableTraining
from toy_tables import TINY, mixed, with_holes

EFFORT = replace(
    TINY, width=16, training=TableTraining(updates=100, batch=128), chains=4, burn_in=10, states=40
)


@pytest.fixture(scope="module")
def gaussian():
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(3), 0.9 + 0.1 * np.eye(3), 400)
    x[rng.random(x.shape) < 0.3] = np.nan
    return FlowImputer(EFFORT, random_state=0).fit(x), x


@pytest.fixture(scope="module")
def found(gaussian):
    imputer, x = gaussian
    return imputer.diagnose(x)


def test_a_gaussian_table_converges_and_its_intervals_cover(found):
    assert found.rows == 400
    assert (found.converged > 0.9).all()
    assert (found.rhat < 1.05).all()
    assert (found.ess > 50).all()
    # Some 84 hidden values a column: three standard errors of .9 are .1.
    assert (np.abs(found.coverage - 0.9) < 0.12).all()
    assert "have converged" in found.verdict
    assert found.summary().index.tolist() == ["0", "1", "2"]


def test_the_verdict_convicts_a_model_of_other_data_and_not_its_own(gaussian, found):
    imputer, x = gaussian
    assert found.narrow == ()
    assert f"Of {found.hidden.sum():.0f} numbers hidden on purpose, " in found.verdict
    assert f"{found.interval_coverage:.0%} lie in their 90% interval." in found.verdict
    # The same distributions, but now columns hang together the other way round.
    turned = x * [1, -1, 1]
    other = imputer.diagnose(turned)
    assert "1" in other.narrow
    assert "intervals are too narrow in: " in other.verdict
    assert repr(other) == f"<Diagnosis: {other.verdict}>"


def diagnosed(coverage, hidden, kinds, ess=np.nan):
    """What might have been found, by 200 draws, or by a median of so many effective ones."""
    columns = len(kinds)
    nothing = np.zeros(columns)
    return Diagnosis(
        names=tuple("abcdefghij"[:columns]),
        holes=nothing,
        rhat=nothing,
        converged=nothing,
        ess=np.full(columns, ess),
        coverage=np.array(coverage),
        hidden=np.array(hidden, dtype=float),
        rows=400,
        kinds=kinds,
        levels=(None,) * columns,
        observed=(nothing,) * columns,
        imputed=(np.zeros((50, 0, 4)),) * columns,
    )


def test_coverage_is_weighed_by_how_many_values_were_hidden():
    kinds = ("continuous", "integer", "categorical", "ordinal")
    found = diagnosed([0.9, 0.6, 0.5, np.nan], [40, 20, 10, 0], kinds)
    assert found.interval_coverage == pytest.approx(0.8)
    assert found.right_levels == 0.5
    nothing = diagnosed([np.nan], [0], ("continuous",))
    assert np.isnan(nothing.interval_coverage)
    assert np.isnan(nothing.right_levels)
    assert nothing.narrow == ()
    assert nothing.verdict == "Nothing is missing in the 400 rows that were examined."


def test_narrow_intervals_are_told_from_chance():
    """All columns of a sound model together are convicted once in a hundred times."""
    rng = np.random.default_rng(0)
    kinds = ("continuous",) * 10
    inside = rng.binomial(40, 0.9 * 199 / 201, size=(2000, 10))
    alarms = sum(bool(diagnosed(own / 40, [40] * 10, kinds).narrow) for own in inside)
    # Tests of whole numbers keep below their level; three standard errors above it.
    assert alarms < 2000 * 0.01 + 3 * (2000 * 0.01) ** 0.5
    # Intervals of few effective draws are narrower, and that is the chains' fault.
    inside = rng.binomial(40, 0.9 * 19 / 21, size=(2000, 10))
    alarms = sum(bool(diagnosed(own / 40, [40] * 10, kinds, 20.0).narrow) for own in inside)
    assert alarms < 2000 * 0.01 + 3 * (2000 * 0.01) ** 0.5
    assert sum(bool(diagnosed(own / 40, [40] * 10, kinds).narrow) for own in inside) > 1000
    # Each somewhat too narrow: no column alone shows it.
    assert diagnosed([0.82] * 10, [40] * 10, kinds).narrow == tuple("abcdefghij")
    assert diagnosed([0.82, *[0.9] * 9], [40] * 10, kinds).narrow == ()
    assert diagnosed([0.6, *[0.9] * 9], [40] * 10, kinds).narrow == ("a",)
    # Levels have no intervals.
    assert diagnosed([0.3, 0.9], [40, 40], ("boolean", "integer")).narrow == ()


def test_draws_lead_with_states(gaussian, found):
    """An index in brackets after a slice would put entries first, and chains would be none."""
    _, x = gaussian
    for place, drawn in enumerate(found.imputed):
        assert drawn.shape == (EFFORT.states, np.isnan(x[:, place]).sum(), 8)
        # Entries differ for what is known of them; one entry's draws only by chance.
        assert drawn.mean((0, 2)).std() > 2 * drawn.mean((1, 2)).std()


def test_chains_that_crawl_are_told_of(gaussian, monkeypatch):
    imputer, x = gaussian
    crawl = Turns((0.999,))
    monkeypatch.setattr(
        sampling, "table_moves", lambda target, steps, **_: Metropolis(target, crawl, gradient=True)
    )
    found = imputer.diagnose(x)
    assert (found.converged < 0.6).all()
    assert "try effort='thorough'" in found.verdict
    with pytest.warns(ConvergenceWarning, match="of the missing values have converged"):
        imputer.transform(x)
    assert imputer.convergence_.rows[np.isnan(x[np.isnan(x).any(1)]).sum(1) > 1].mean() < 0.5


def test_progress_tells_of_the_last_rows(gaussian):
    imputer, x = gaussian
    imputer.transform(x)
    found = imputer.convergence_
    rows = found.rhat.shape[1]
    assert "under 1.1: 100%" in found.words(rows)
    found.rhat[:, -256:][np.isfinite(found.rhat[:, -256:])] = 1.25
    assert found.words(rows) == "R-hat 1.25, under 1.1: 0%"
    # Where there are too few states to tell, nothing is said.
    found.rhat[:] = np.nan
    assert found.words(rows) == ""


def test_figures_show_every_column_with_holes(found, tmp_path):
    for figure in (found.traces(), found.densities()):
        shown = [axis for axis in figure.axes if axis.get_visible()]
        assert len(shown) == 3
        figure.savefig(tmp_path / "figure.png")


def test_every_kind_of_column_and_columns_without_holes():
    table, _ = with_holes(mixed())
    table["size"] = mixed()["size"]
    found = FlowImputer(TINY, random_state=0).fit(table).diagnose(table)
    assert found.holes[0] == 0
    assert np.isnan(found.converged[0])
    assert (found.coverage >= 0).all()
    assert (found.coverage <= 1).all()


def test_a_column_of_one_level_has_converged():
    table, _ = with_holes(mixed())
    table["one"] = np.where(np.arange(len(table)) % 3, "k", None)
    found = FlowImputer(TINY, random_state=0).fit(table).diagnose(table)
    assert found.names[-1] == "one"
    assert found.rhat[-1] == found.converged[-1] == found.coverage[-1] == 1


def test_a_flag_is_told_by_vote_not_by_an_interval_that_holds_both_its_values():
    rng = np.random.default_rng(0)
    flag = rng.random(400) < 0.5
    table = pd.DataFrame({"flag": pd.array(flag, "boolean"), "x": rng.normal(size=400)})
    table.loc[:100, "x"] = np.nan
    found = FlowImputer(TINY, random_state=0).fit(table).diagnose(table)
    # Nothing tells what it is: some 40 hidden, guessed right by a coin.
    assert 0.2 < found.coverage[0] < 0.8


def test_convergence_is_of_the_last_table(gaussian):
    imputer, x = gaussian
    imputer.transform(x)
    assert len(imputer.convergence_) == np.isnan(x).any(1).sum()
    whole = np.nan_to_num(x)
    imputer.transform(whole)
    assert len(imputer.convergence_) == 0
    assert np.isnan(imputer.convergence_.share)
