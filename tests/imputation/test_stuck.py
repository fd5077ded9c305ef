"""A chain that never moves is told of: by the imputer, the command and the report."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch

from plmcmc import FlowImputer
from plmcmc.cli import main
from plmcmc.cli.report.cautions import warnings_of
from plmcmc.imputation import sampling
from plmcmc.kernels.base import choose
from plmcmc.posterior import StuckWarning
from plmcmc.tables.fill import Found
from toy_tables import TINY

ROWS, COLUMNS = 40, 3
LONGER = replace(TINY, burn_in=8, states=24)
# Of the table; every other row has a hole.
HELD = 4


def table():
    x = np.random.default_rng(0).normal(size=(ROWS, 1)) + np.zeros((ROWS, COLUMNS))
    x += 0.3 * np.random.default_rng(1).normal(size=x.shape)
    x[::2, 1] = np.nan
    return pd.DataFrame(x, columns=list("abc"))


@dataclass(frozen=True)
class Holding:
    """A kernel that never moves one chain, the first of some rows."""

    kernel: object
    rows: tuple[int, ...]
    places: int

    def step(self, state, streams):
        new, info = self.kernel.step(state, streams)
        moves = torch.ones(len(info.accepted), dtype=torch.bool)
        moves[[self.places * row for row in self.rows]] = False
        return choose(moves, new, state), info


@pytest.fixture
def held(monkeypatch):
    """Hold the first chain of the row that is `HELD` of the table."""
    moves = sampling.table_moves

    def holding(target, steps, **options):
        places = 4 if hold["many"] else 2
        return Holding(moves(target, steps, **options), (HELD // 2,), places)

    hold = {"many": False}
    monkeypatch.setattr(sampling, "table_moves", holding)
    return hold


@pytest.fixture(scope="module")
def imputer():
    return FlowImputer(LONGER, random_state=0, progress=False).fit(table())


def told(caught):
    return [str(own.message) for own in caught if own.category is StuckWarning]


def test_one_chain_of_one_row(imputer, held):
    with pytest.warns(StuckWarning) as caught:
        imputer.transform(table())
    (message,) = told(caught)
    assert message.startswith(f"row {HELD}: a chain never moved")
    assert imputer.convergence_.stuck.tolist() == [n == HELD // 2 for n in range(ROWS // 2)]
    # It has not converged, whatever R-hat says.
    assert not imputer.convergence_.rows[HELD // 2]


@pytest.mark.parametrize("ask", ["sample", "complete"])
def test_draws_of_few_states_too(ask, imputer, held):
    held["many"] = True
    with pytest.warns(StuckWarning) as caught:
        getattr(imputer, ask)(table(), 3)
    assert told(caught)[0].startswith(f"row {HELD}:")


def test_one_that_stops_moving_after_it_has_settled(imputer, monkeypatch):
    begun = sampling._begun

    def then_held(*given):
        first, kernel, state = begun(*given)
        return first, Holding(kernel, (HELD // 2,), 2), state

    monkeypatch.setattr(sampling, "_begun", then_held)
    with pytest.warns(StuckWarning) as caught:
        imputer.transform(table())
    assert told(caught)[0].startswith(f"row {HELD}:")


def test_negative_control_chains_that_move(imputer):
    with np.errstate(all="raise"):
        imputer.transform(table())
        imputer.complete(table(), 3)
    assert not imputer.convergence_.stuck.any()


def test_a_model_whose_weights_are_lost(imputer, tmp_path):
    lost = FlowImputer.load(imputer.save(tmp_path / "model"))
    with torch.no_grad():
        lost.model_.flow.mean.fill_(torch.nan)
    with pytest.warns(StuckWarning, match=r"rows 0, 2, .* and 10 more: a chain"):
        lost.complete(table(), 2)


def test_a_diagnosis(imputer, monkeypatch):
    moves = sampling.table_moves
    monkeypatch.setattr(
        sampling,
        "table_moves",
        lambda *given, **options: Holding(moves(*given, **options), (HELD,), 2),
    )
    assert "in 1 rows a chain never moved" in imputer.diagnose(table()).verdict


def test_the_command(imputer, held, tmp_path, capsys):
    table().to_csv(tmp_path / "data.csv", index=False)
    imputer.save(tmp_path / "model")
    argv = ["impute", tmp_path / "data.csv", "-o", tmp_path / "out.csv"]
    argv += ["--model", tmp_path / "model", "--flag", "ok"]
    assert main([str(own) for own in argv]) == 0
    assert "in 1 of 20 rows a chain never moved" in capsys.readouterr().err
    flags = [line.rsplit(",", 1)[1] for line in (tmp_path / "out.csv").read_text().split()[1:]]
    assert flags[HELD] == "false"


def test_it_is_kept_with_a_table_and_told_on_the_page():
    found = Found(*json.loads(json.dumps(Found(10, 9, 10, 0.95, 2))))
    assert found.stuck == 2
    assert "In 2 of 10 rows" in warnings_of([], 10, 0, found, None)[0]
    assert warnings_of([], 10_000, 0, found._replace(stuck=0), None) == []
