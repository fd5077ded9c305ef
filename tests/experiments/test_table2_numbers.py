"""Table 2's numbers are what they are called: worked out by hand, for fillers that are known."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from plmcmc.chains import Unconditional
from plmcmc.experiments import algorithm1, experiment_of
from plmcmc.experiments.algorithm1 import last_completions
from plmcmc.experiments.study import Found, Place
from plmcmc.experiments.tables import fillers
from plmcmc.experiments.tables.fillers import Filled, TableBudget, TableFiller
from plmcmc.experiments.tables.table2 import SETS, Table2, scores
from plmcmc.flows import NICE, Preprocessed, Whiten
from plmcmc.posterior import methods
from plmcmc.training import paper
from plmcmc.training.presets import FROM_SAMPLES

# Deviations 1 and 10.
TRUTH = np.array([[1.0, 10.0], [-1.0, -10.0], [1.0, -10.0], [-1.0, 10.0]])
MISSING = np.array([[True, True], [False, True], [False, False], [True, False]])


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, tmp_path / "shared", progress=False)


def test_errors_by_row_and_by_entry_of_the_average_and_of_single_draws():
    wrong = np.array([[1.0, 20.0], [7.0, 30.0], [7.0, 7.0], [2.0, 7.0]])
    draws = np.stack([TRUTH + wrong, TRUTH - wrong])
    found = scores(TRUTH, MISSING, Filled(TRUTH + wrong / 2, draws))
    # Squares in deviations of the columns: 1, 4; 9; 4. By row 2.5, 9, 4.
    assert found["NMSE, single"] == pytest.approx(15.5 / 3, abs=1e-5)
    assert found["NMSE per entry, single"] == pytest.approx(18 / 4, abs=1e-5)
    assert found["NMSE"] == pytest.approx(15.5 / 3 / 4, abs=1e-5)
    assert found["NMSE per entry"] == pytest.approx(18 / 4 / 4, abs=1e-5)
    # Two draws at a distance d on both sides of the truth: d - d, without their own pairs.
    assert found["CRPS"] == pytest.approx(0, abs=1e-9)


def test_crps_is_in_deviations_of_the_columns():
    draws = np.stack([TRUTH + np.array([1.0, 10.0])] * 3)
    found = scores(TRUTH, MISSING, Filled(draws[0], draws))
    # All draws one deviation off.
    assert found["CRPS"] == pytest.approx(1)
    assert found["coverage of 90% intervals"] == 0


@pytest.mark.parametrize("narrowed", [1.0, 0.5])
def test_intervals_are_of_nine_tenths(narrowed):
    rng = np.random.default_rng(0)
    truth, draws = rng.normal(size=(400, 20)), narrowed * rng.normal(size=(200, 400, 20))
    found = scores(truth, np.ones(truth.shape, bool), Filled(draws.mean(0), draws))
    expected = 2 * norm.cdf(narrowed * norm.ppf(0.95)) - 1
    # Of 8,000 entries; 200 draws take .005 off at most (their ends are those of 189 gaps of 201).
    error = (expected * (1 - expected) / truth.size) ** 0.5
    assert abs(found["coverage of 90% intervals"] - expected) < 4.5 * error + 0.006


@pytest.mark.parametrize("name", ["banknote", "concrete"])
def test_the_paper_s_chains_are_clamped_and_averaged(name, place, monkeypatch):
    preset = paper(name)
    holed = np.array([[0.0, np.nan], [1.0, 5.0], [np.nan, 7.0]])
    copies = 2 if preset.doubled else 1
    drawn = np.arange(2 * 3 * 2 * copies).reshape(2, 3, -1) - 3.0
    asked = {}

    class Trained:
        def __init__(self, schedule):
            asked["schedule"] = schedule

        def fit(self, flow, rows, *, checkpoint, **_):
            asked["checkpoint"] = checkpoint
            return SimpleNamespace(flow=flow, acceptance=[0.1, 0.3])

    def caught(flow, rows, method, start, where, **options):
        asked.update(rows=rows, method=method, start=start, **options)
        return drawn

    monkeypatch.setattr(fillers, "MonteCarloEM", Trained)
    monkeypatch.setattr(fillers, "last_completions", caught)
    own = place.checkpoint("a part")
    filled = TableFiller(TableBudget(), place, own)._plmcmc(name, holed, 3)
    assert asked["checkpoint"] == own
    # E.2, under testing: sigma_p .01, sigma_r 1, sigma_a 1e-3; 2,000 proposals, 25 chains.
    method = asked["method"]
    assert (method.perturb, method.resample, method.auxiliary.scale) == (0.01, 1.0, 1e-3)
    assert (asked["proposals"], asked["chains"], asked["seed"]) == (2000, 25, 3)
    assert asked["start"] == FROM_SAMPLES == Unconditional(projected=False)
    assert (asked["schedule"].epochs, asked["schedule"].every) == (1000, 50)
    np.testing.assert_array_equal(asked["rows"], np.tile(holed, copies))
    expected = drawn.reshape(2, 3, copies, 2).transpose(2, 0, 1, 3).reshape(-1, 3, 2)
    expected = expected.clip([0.0, 5.0], [1.0, 7.0])
    np.testing.assert_array_equal(filled.draws, expected)
    np.testing.assert_allclose(filled.table, expected.mean(0))
    assert filled.told == {"accepted in training": 0.2}


def test_last_completions_walk_in_whitened_units(place, monkeypatch):
    mean, scale = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 4.0])
    flow = Preprocessed([Whiten(mean, scale)], NICE(2, couplings=2, width=4, random_state=0))
    given = {}

    class Conditional:
        def sample(self, draws, **options):
            given.update(draws=draws, **options)
            return SimpleNamespace(values=np.full((3, 1, 2, 2), [1.0, -1.0]))

    def condition(own, rows, **_):
        given.update(flow=own, rows=rows)
        return Conditional()

    monkeypatch.setattr(algorithm1, "condition", condition)
    rows = np.array([[3.0, np.nan], [np.nan, 7.0]])
    found = last_completions(
        flow, rows, methods.Metropolis(), FROM_SAMPLES, place, proposals=9, chains=3, seed=0
    )
    assert given["flow"] is flow.flow
    np.testing.assert_allclose(given["rows"], [[2, np.nan], [np.nan, 2]])
    np.testing.assert_allclose(found, np.full((3, 2, 2), [2.5, -5.0]))
    # The last state of so many, none left out before.
    assert (given["draws"], given["thin"], given["warmup"]) == (1, 9, 0)
    assert (given["chains"], given["start"]) == (3, FROM_SAMPLES)


def test_both_means_stand_beside_the_paper_s(place):
    found = {}
    for mask in range(2):
        numbers = {"NMSE": 0.5 + 0.1 * mask, "NMSE per entry": 0.6 + 0.1 * mask}
        single = {"NMSE, single": 1.0 + mask, "NMSE per entry, single": 3.0 + mask}
        found[f"breast, mask {mask}, PL-MCMC"] = Found(numbers | single)
    found["yeast, mask 1, PL-MCMC"] = Found({"NMSE": 0.7, "NMSE per entry": 0.8})
    report = Table2(masks=2).report(found, place)
    rows, entries = (part.split("\n\n")[1] for part in report.split("## NMSE")[1:3])
    assert rows.splitlines()[2:] == [
        "| PL-MCMC, single | 1.5(5) |  |",
        "| PL-MCMC, single, the paper's | 0.46(2) | 1.67(5) |",
        "| PL-MCMC, average | 0.55(5) | 0.700 [1] |",
        "| PL-MCMC, average, the paper's | 0.31(2) | 0.96(6) |",
        "| MIWAE, the paper's | 0.29(1) | 0.95(5) |",
        "| missForest, the paper's | 0.31(1) | 1.18(3) |",
        "| mean, the paper's | 1.00(3) | 0.96(6) |",
    ]
    assert "| PL-MCMC, single | 3.5(5) |" in entries
    assert "| PL-MCMC, average | 0.65(5) | 0.800 [1] |" in entries
    assert SETS == ("banknote", "breast", "concrete", "red-wine", "white-wine", "yeast")


@pytest.mark.parametrize("method", ["PL-MCMC", "plmcmc", "MIWAE"])
def test_training_goes_on_where_it_was_stopped(method, place, monkeypatch):
    experiment, part = experiment_of("table2", "smoke"), f"wine, mask 0, {method}"
    place.output.mkdir(exist_ok=True)
    whole = experiment.run(part, place).numbers
    assert place.checkpoint(part).exists()
    # What is there is gone on from: nothing is learned again.
    monkeypatch.setattr("plmcmc.training.completed.maximise", None)
    monkeypatch.setattr("plmcmc.training.tables.online_em.TableEM.step", None)
    monkeypatch.setattr("plmcmc.baselines.miwae_epoch.MiwaeEpoch.step", None)
    again = experiment.run(part, place).numbers
    # How long both took together nobody knows.
    assert whole.pop("seconds") >= 0
    assert whole == again
