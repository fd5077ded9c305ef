"""Both tables of the paper, in small: every method has its numbers, and they are the same twice."""

from dataclasses import fields, replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from plmcmc.experiments import experiment_of, reproduce
from plmcmc.experiments.digits import our_filler
from plmcmc.experiments.digits.fillers import FILLERS, Mean
from plmcmc.experiments.digits.judge import Judge
from plmcmc.experiments.digits.missing import mechanism_of
from plmcmc.experiments.digits.rows import PAPER
from plmcmc.experiments.digits.table1 import CELLS
from plmcmc.experiments.markdown import row_label
from plmcmc.experiments.sources import embedded_digits, embedded_table, enlarged
from plmcmc.experiments.study import Found, Place
from plmcmc.experiments.tables import rows
from plmcmc.experiments.tables.fillers import Filled, TableBudget, TableFiller
from plmcmc.experiments.tables.table2 import Table2, scores
from plmcmc.flows import log_prob
from plmcmc.training import FittedEM


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """One place for both, as a user has it."""
    return tmp_path_factory.mktemp("reproduce")


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_a_smoke_run(name, output):
    said = []
    report = reproduce.reproduce(name, "smoke", output=output, progress=False, say=said.append)
    experiment = experiment_of(name, "smoke")
    for method in experiment.methods:
        if method != "miceforest" or find_spec(method):
            assert f"| {row_label(method)}" in report
    assert "nan" not in report
    again = []
    assert reproduce.reproduce(name, "smoke", output=output, say=again.append) == report
    assert again[0].startswith(f"{name} (smoke): 0 of")


def test_parts_are_the_same_twice(output, tmp_path):
    # What a part keeps of itself on its way is not what the second one finds.
    places = [Place(tmp_path / own, output / "shared", progress=False) for own in "ab"]
    for name, part in (
        ("table1", "I.M. 0.6, training 0, PL-MCMC"),
        ("table2", "wine, mask 0, MIWAE"),
    ):
        one, two = (experiment_of(name, "smoke").run(part, own).numbers for own in places)
        for numbers in (one, two):
            for key in [own for own in numbers if own.startswith("seconds")]:
                del numbers[key]
        assert one == two


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_parts_depend_on_what_their_method_takes_of_the_budget(name):
    experiment = experiment_of(name, "full")
    assert "budget" not in experiment.settings()
    taken = [
        set(experiment.settings_of(f"S.O. 0.6, b, {method}")) - {"masks"}
        for method in experiment.methods
    ]
    # Nothing is forgotten.
    assert set().union(*taken) == {own.name for own in fields(experiment.budget)}
    assert "misgan_epochs" not in experiment.settings_of("S.O. 0.6, b, PL-MCMC")
    assert taken[list(experiment.methods).index("mean")] == set()


def test_the_paper_s_flows_of_tables_compute_as_the_budget_says(tmp_path):
    filler = TableFiller(
        TableBudget(precision="bfloat16", compiled=True), Place(tmp_path, tmp_path)
    )
    schedule = filler._preset("banknote", np.zeros((3, 4))).schedule
    assert (schedule.precision, schedule.compiled) == ("bfloat16", True)


def test_our_completions_of_digits_are_not_clamped(tmp_path, monkeypatch):
    def caught(schedule):
        assert not schedule.clamp
        raise InterruptedError

    monkeypatch.setattr(our_filler, "MonteCarloEM", caught)
    digits = embedded_digits(large=False).train[:8]
    budget = experiment_of("table1", "smoke").budget
    own = FILLERS["plmcmc"](budget, Place(tmp_path, tmp_path), 0, tmp_path)
    with pytest.raises(InterruptedError):
        own.fit(digits, np.ones(digits.shape, dtype=bool))


@pytest.mark.filterwarnings("ignore::plmcmc.posterior.ConvergenceWarning")
def test_our_digits_are_whitened_before_training(tmp_path, monkeypatch):
    # Training draws its first holes from N(0, I) in the units of what it is handed.
    rng = np.random.default_rng(0)
    digits = rng.uniform(0.2, 0.8, size=(200, 1, 3)).astype(np.float32)
    digits[:, 0, 2] = 0.25
    observed = rng.random(digits.shape) < 0.7
    handed = {}

    class Untrained:
        def __init__(self, schedule):
            assert not schedule.whiten
            handed["schedule"] = schedule

        def fit(self, flow, x, seen, **options):
            handed.update(flow=flow, x=x, seen=seen, options=options)
            return FittedEM(flow, [], [], x[None])

    monkeypatch.setattr(our_filler, "MonteCarloEM", Untrained)
    budget = replace(
        experiment_of("table1", "smoke").budget,
        our_epochs=9,
        our_every=4,
        our_trajectories=5,
        our_falling=0.4,
        our_noise=0.2,
    )
    own = FILLERS["plmcmc"](budget, Place(tmp_path, tmp_path, progress=False), 3, tmp_path / "x")
    own.fit(digits, observed)
    # As the budget says; training that is stopped goes on, and smoothing is told in its units.
    schedule = handed["schedule"]
    assert (schedule.epochs, schedule.every, schedule.proposals) == (9, 4, 5)
    assert (schedule.falling, schedule.noise) == (0.4, 0.2)
    assert handed["options"] == {
        "random_state": 3,
        "checkpoint": tmp_path / "x",
        "progress": False,
    }
    assert torch.equal(own.smoothing, 0.2 * own.trained.chain[0].scale)
    x, seen = handed["x"], handed["seen"]
    assert x.dtype == np.float32
    for pixel in range(2):
        values = x[seen[:, pixel], pixel]
        assert (values.mean(), values.std()) == pytest.approx((0, 1), abs=1e-4)
    # The constant one: its scale is the floor's, not 1.
    whiten = own.trained.chain[0]
    assert whiten.scale[2].item() == pytest.approx(our_filler.FLOOR)
    # What is asked after training whitens by the same numbers, and what is seen stays as it is.
    assert own.trained.flow is handed["flow"]
    rows = torch.as_tensor(digits.reshape(200, 3))
    np.testing.assert_array_equal(whiten.to_latent(rows)[0].numpy(), x)
    for _, found in own.complete(digits[:2], observed[:2], 0).ways:
        np.testing.assert_array_equal(found[observed[:2]], digits[:2][observed[:2]])
    # Smoothing by a tenth of a deviation costs next to nothing under a flow that is not trained.
    nats = own.told["nats of whole training digits"]
    assert nats == pytest.approx(log_prob(own.trained, rows).mean().item(), abs=0.1)


def test_intervals_of_draws_that_are_too_narrow_hold_less():
    rng = np.random.default_rng(0)
    truth, draws = rng.normal(size=(100, 50)), rng.normal(size=(2, 200, 100, 50))
    seen = rng.random(truth.shape) < 0.3
    # Of 3,500 pixels: the binomial's deviation is .005, that of intervals by 400 draws .001.
    assert our_filler._held(draws, truth, seen) == pytest.approx(0.9, abs=0.02)
    assert our_filler._held(draws / 2, truth, seen) == pytest.approx(0.59, abs=0.03)


def test_the_judge_knows_the_truth_from_noise(output):
    digits = embedded_digits(large=False)
    judge = Judge.of(digits, 1, Place(output, output / "shared", progress=False))
    observed = mechanism_of("I.M. 0.6")(digits.test, 0)
    truth = judge.scores(digits.test, observed)
    noise = np.random.default_rng(0).random(digits.test.shape, dtype=np.float32)
    assert truth == {"RMSE": 0.0, "FID": pytest.approx(0.0, abs=1e-6)}
    filled = judge.scores(np.where(observed, digits.test, noise), observed)
    assert filled["FID"] > 10 * max(truth["FID"], 1e-6)
    # Two independent values of one pixel differ by at most 1.
    assert 0.2 < filled["RMSE"] < 1


def test_means_are_of_what_is_seen(tmp_path):
    digits = np.array([[[0.0, 1.0]], [[0.5, 0.0]], [[1.0, 0.5]]], dtype=np.float32)
    observed = np.array([[[True, False]], [[True, True]], [[False, True]]])
    filler = Mean(None, Place(tmp_path, tmp_path), 0, tmp_path / "x")
    filler.fit(digits, observed)
    ((_, found),) = filler.complete(digits, observed, 0).ways
    np.testing.assert_allclose(found[2, 0, 0], 0.25)
    np.testing.assert_allclose(found[0, 0, 1], 0.25)


def test_enlarged_digits_are_digits():
    small = embedded_digits(large=False).test[:3]
    large = enlarged(small)
    assert large.shape == (3, 28, 28)
    np.testing.assert_array_equal(large[:, 3:-2:3, 3:-2:3], small)
    np.testing.assert_array_equal(embedded_digits().test[:3], large)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("table1", ("1.814 is the logistic prior's own", "Its average is of all draws")),
        (
            "table2",
            (
                "1 is the normal prior's own",
                "1,000 proposals, E.2 with 2,000",
                "Rows without missing values",
                "completing a test set",
                "MIWAE and missForest are plmcmc's own",
                "errors of single draws are over its 25 chains",
            ),
        ),
    ],
)
def test_how_the_paper_is_read_is_told(name, own):
    told = " ".join(experiment_of(name, "full").readings)
    both = ("4 couplings with 5 hidden layers", "whitened units", "it is exact", "19 E-steps")
    assert [words for words in (*both, *own) if words not in told] == []


def test_means_of_columns_have_an_error_of_one():
    truth = embedded_table("wine")
    missing = np.random.default_rng(0).random(truth.shape) < 0.5
    mean = scores(truth, missing, Filled(np.broadcast_to(truth.mean(0), truth.shape)))
    # Half of the entries: four deviations of the mean of some 390 squares of kurtosis about 3.
    assert abs(mean["NMSE per entry"] - 1) < 4 * (2 / missing.sum()) ** 0.5


def test_ours_is_compared_with_the_best_of_the_others(tmp_path):
    ours, theirs = (0.4, 0.5), {"mean": (1.0, 1.0), "Gaussian EM": (0.45, 0.51)}
    found = {}
    for mask in range(2):
        found[f"wine, mask {mask}, plmcmc"] = Found({"NMSE": ours[mask], "seconds": 1})
        for method, values in theirs.items():
            found[f"wine, mask {mask}, {method}"] = Found({"NMSE": values[mask], "seconds": 1})
    report = Table2(sets=("wine",), masks=2).report(found, Place(tmp_path, tmp_path))
    assert "| -0.030 ± 0.020 (Gaussian EM) |" in report


def test_of_draws_and_seconds_every_method_has_one_row(tmp_path):
    numbers = {"NMSE": 0.5, "NMSE, single": 0.9, "CRPS": 0.4}
    found = {
        f"wine, mask {mask}, {method}": Found(numbers | {"seconds": 1200.0 + mask})
        for mask, method in ((0, "PL-MCMC"), (1, "PL-MCMC"), (0, "mean"))
    }
    report = Table2(sets=("wine",), masks=2).report(found, Place(tmp_path, tmp_path))
    nmse, rest = report.split("## CRPS")
    assert "| PL-MCMC, average | 0.5000(0) |" in nmse
    assert "| PL-MCMC | 0.4000(0) |" in rest
    assert "average" not in rest
    # 25 and 100 draws, in closed form: 1 - 2 (1 + .05 (n - 1)) / (n + 1).
    assert "0.831 with 25 (PL-MCMC)" in rest
    assert "0.882 with 100 (the others)" in rest
    # A machine's seconds are no sample: they have no error.
    seconds = rest.split("## seconds")[1]
    assert "| PL-MCMC | 1,200.5 |" in seconds
    assert "| mean | 1,200.0 [1] |" in seconds


def test_the_paper_s_numbers_are_all_there():
    # That they stand where they should: test_table1_numbers, test_table2_numbers.
    assert set(PAPER) == set(CELLS)
    assert all(len(row) == 8 for row in PAPER.values())
    assert all(len(row) == len(rows.SETS) for row in rows.PAPER.values())
    assert list(FILLERS) == ["mean", "PL-MCMC", "plmcmc", "MisGAN"]
