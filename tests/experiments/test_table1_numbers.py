"""Table 1's numbers are what they are called: worked out by hand, for fillers that are known."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from plmcmc.data import Independent, Patch, SquareObservation
from plmcmc.experiments import experiment_of
from plmcmc.experiments.digits import fillers, our_filler, table1
from plmcmc.experiments.digits.filler import Budget, Completed, Filler
from plmcmc.experiments.digits.fillers import FILLERS, Misgan, Paper
from plmcmc.experiments.digits.incomplete_flow import FlowOfHoledDigits
from plmcmc.experiments.digits.judge import Judge, kept_scores
from plmcmc.experiments.digits.missing import mechanism_of
from plmcmc.experiments.digits.our_filler import Ours
from plmcmc.experiments.digits.table1 import CELLS, Table1
from plmcmc.experiments.sources import embedded_digits
from plmcmc.experiments.study import Found, Place

# Two digits of one row of pixels, three chains, and what is seen.
TRUTH = np.array([[[0.0, 1.0, 0.5]], [[1.0, 0.0, 0.5]]])
SEEN = np.array([[[True, False, False]], [[True, True, False]]])
DRAWS = np.array(
    [
        [[9.0, 0.0, 0.5], [9.0, 9.0, 0.0]],
        [[9.0, 1.0, 0.5], [9.0, 9.0, 1.0]],
        [[9.0, 2.0, -1.0], [9.0, 9.0, 0.5]],
    ]
)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, tmp_path / "shared", progress=False)


def test_cells_are_hidden_by_the_mechanisms_that_they_name():
    assert [type(mechanism_of(f"{kind} 0.6")) for kind in ("I.M.", "S.O.", "P.M.")] == [
        Independent,
        SquareObservation,
        Patch,
    ]
    assert CELLS[:3] == ("I.M. 0.6", "S.O. 0.6", "P.M. 0.6")
    # One side for all: the paper's means of MNIST are those of 23, 18 and 9 pixels.
    for rate, side in ((0.3, 23), (0.6, 18), (0.9, 9)):
        seen = mechanism_of(f"S.O. {rate}")(np.zeros((5, 28, 28)), 0)
        np.testing.assert_array_equal(seen.sum((1, 2)), side**2)
        hidden = ~mechanism_of(f"P.M. {rate}")(np.zeros((5, 28, 28)), 0)
        np.testing.assert_array_equal(hidden.sum((1, 2)), round(784 * rate))
        hidden = ~mechanism_of(f"I.M. {rate}")(np.zeros((50, 28, 28)), 0)
        assert abs(hidden.mean() - rate) < 4.5 * (rate * (1 - rate) / hidden.size) ** 0.5


def test_numbers_depend_on_what_is_hidden():
    experiment = experiment_of("table1", "full")
    one, two = (experiment.settings_of(f"S.O. {r}, training 0, mean") for r in (0.3, 0.6))
    assert one == {"masks": "SquareObservation(rate=0.3, exact=False)"} != two


def test_the_paper_s_training_draws_with_less_deviation_later():
    training = FlowOfHoledDigits()
    schedule = training.schedule
    methods: list[Any] = [schedule.method_after(epoch) for epoch in range(50, 1000, 50)]
    drawn = [method.resample for method in methods]
    assert drawn == [1.814] * 9 + [0.5] * 10
    assert [epoch for epoch in range(1, 1001) if schedule.expects(epoch)] == list(
        range(50, 1000, 50)
    )


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [
        (Budget(), FlowOfHoledDigits()),
        (
            Budget(width=8, epochs=40, proposals=7, precision="bfloat16", compiled=True),
            FlowOfHoledDigits(8, 40, 2, 20, 7, precision="bfloat16", compiled=True),
        ),
        # Fewer epochs than twentieths.
        (Budget(epochs=6), FlowOfHoledDigits(epochs=6, every=1, later=3)),
    ],
)
def test_the_paper_s_method_is_trained_as_the_budget_says(budget, wanted, place, monkeypatch):
    asked = []

    def trained(*arguments):
        asked.append(arguments)
        return SimpleNamespace(flow="its flow", acceptance=np.array([0.25]))

    monkeypatch.setattr(FlowOfHoledDigits, "trained", trained)
    filler = Paper(budget, place, 3, place.output / "x")
    filler.fit(TRUTH, SEEN)
    ((training, digits, observed, where, seed),) = asked
    assert training == wanted
    assert digits is TRUTH
    assert observed is SEEN
    assert (where, seed) == (place, 3)
    # What is asked after training: its flow, with its schedule's later method.
    assert (filler.trained, filler.schedule) == ("its flow", wanted.schedule)
    assert filler.told["accepted in training"] == [0.25]
    # Of what is seen; the last pixel never is.
    np.testing.assert_array_equal(filler.range, [[0, 0, -np.inf], [1, 0, np.inf]])


def test_misgan_is_trained_as_the_budget_says(place, monkeypatch):
    asked = {}

    class Trained:
        def fill(self, images, observed, **options):
            asked.update(filled=images, **options)
            return images

    class Untrained:
        def __init__(self, **options):
            asked["imputer"] = options

        def fit(self, images, observed, *, checkpoint):
            asked.update(fitted=images, checkpoint=checkpoint)
            return Trained()

    monkeypatch.setattr(fillers, "MisganImputer", Untrained)
    filler = Misgan(Budget(misgan_epochs=7, misgan_channels=8), place, 3, place.output / "x")
    filler.fit(TRUTH, SEEN)
    assert asked["imputer"] == {
        "epochs": 7,
        "channels": 8,
        "random_state": 3,
        "device": place.device,
        "progress": place.progress,
    }
    assert asked["checkpoint"] == place.output / "x"
    list(filler.complete(TRUTH, SEEN, 5).ways)
    assert asked["random_state"] == 5
    # What is hidden from it is nowhere in what it is given.
    for name in ("fitted", "filled"):
        np.testing.assert_array_equal(asked[name], np.where(SEEN, TRUTH, 0))


def test_misgan_s_training_goes_on_where_it_was_stopped(place, monkeypatch):
    smoke, part = experiment_of("table1", "smoke"), "I.M. 0.6, training 0, MisGAN"
    whole = smoke.run(part, place).numbers
    # Its tests are asked again, of what is not trained again.
    (place.checkpoint(part) / "tests.json").unlink()
    monkeypatch.setattr("plmcmc.baselines.misgan_epoch.MisganEpoch.step", None)
    again = smoke.run(part, place).numbers
    assert whole.pop("seconds in all") >= whole.pop("seconds of training")
    assert whole == again


def test_the_paper_s_tests_are_asked_as_it_says(place, monkeypatch):
    asked = {}

    def caught(flow, rows, method, start, where, **options):
        asked.update(rows=rows, method=method, start=start, **options)
        return DRAWS.copy()

    monkeypatch.setattr(fillers, "last_completions", caught)
    budget = Budget(chains=3, precision="bfloat16", compiled=True)
    filler = Paper(budget, place, 0, place.output / "x")
    filler.schedule = FlowOfHoledDigits().schedule
    filler.trained = SimpleNamespace()
    filler.range = (np.zeros(3), np.array([1.0, 1.0, 0.75]))
    found = list(filler.complete(TRUTH, SEEN, 7).ways)
    # E.1, under testing: sigma_p .05, sigma_r .5, sigma_a 1e-3, 2,000 proposals.
    method = asked["method"]
    assert (method.perturb, method.resample, method.auxiliary.scale) == (0.05, 0.5, 1e-3)
    assert (asked["proposals"], asked["chains"], asked["seed"]) == (2000, 3, 7)
    assert (asked["precision"], asked["compiled"]) == ("bfloat16", True)
    # At samples of the flow, of which nothing seen is put in.
    assert (asked["start"].temperature, asked["start"].projected) == (1.0, False)
    np.testing.assert_array_equal(np.isnan(asked["rows"]), ~SEEN.reshape(2, 3))
    assert [name for name, _ in found] == [", single"] * 3 + [", average"]
    # Within what is seen of each pixel, and what is seen of a digit as it is.
    np.testing.assert_allclose(found[0][1], [[[0, 0, 0.5]], [[1, 0, 0]]])
    np.testing.assert_allclose(found[1][1], [[[0, 1, 0.5]], [[1, 0, 0.75]]])
    np.testing.assert_allclose(found[2][1], [[[0, 1, 0]], [[1, 0, 0.5]]])
    np.testing.assert_allclose(found[3][1], [[[0, 2 / 3, 1 / 3]], [[1, 0, 1.25 / 3]]])


def test_our_average_is_of_all_draws_and_single_ones_are_the_last(place, monkeypatch):
    # (chains, draws, rows, pixels): two chains of three draws.
    values = np.stack([DRAWS, DRAWS[::-1]])
    drawn = SimpleNamespace(values=values, mean=lambda: values.mean((0, 1)))
    asked = {}

    class Conditional:
        def sample(self, draws, **options):
            asked.update(draws=draws, **options)
            return drawn

    monkeypatch.setattr(our_filler, "condition", lambda *_, **__: Conditional())
    monkeypatch.setattr(our_filler, "convergence_of", lambda _: {"share at R-hat 1.1 or less": 0})
    monkeypatch.setattr(Ours, "_nats", lambda *_: 0.0)
    filler = Ours(Budget(our_chains=2, our_draws=3, our_warmup=5), place, 0, place.output / "x")
    filler.trained = SimpleNamespace()
    filler.range = (np.full(3, -9.0), np.array([9.0, 1.5, 9.0]))
    found = list(filler.complete(TRUTH, SEEN, 7).ways)
    assert (asked["draws"], asked["chains"], asked["warmup"]) == (3, 2, 5)
    assert [name for name, _ in found] == [", single"] * 2 + [", average"]
    np.testing.assert_allclose(found[0][1], [[[0, 1.5, -1]], [[1, 0, 0.5]]])
    np.testing.assert_allclose(found[1][1], [[[0, 0, 0.5]], [[1, 0, 0]]])
    np.testing.assert_allclose(found[2][1], [[[0, 1, 0]], [[1, 0, 0.5]]])


def test_errors_are_means_over_digits_of_their_own():
    judge = Judge(None, TRUTH, None, 1.0, "one")
    completed = TRUTH + np.array([[[5.0, 0.3, 0.4]], [[5.0, 5.0, 0.2]]])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("plmcmc.experiments.digits.judge.lenet_features", lambda *_: None)
        patched.setattr("plmcmc.experiments.digits.judge.frechet_distance", lambda *_: 3.0)
        patched.setattr("plmcmc.experiments.digits.judge.enlarged", lambda own: own)
        found = judge.scores(completed, SEEN)
    # sqrt((.09 + .16) / 2) and .2: pooled over pixels it would be .311.
    assert found == {"RMSE": pytest.approx((0.125**0.5 + 0.2) / 2), "FID": 3.0}


class Noting(Filler):
    """Notes what it is shown."""

    shown: list

    def fit(self, digits, observed):
        self.shown.append((len(digits), observed))
        self.trained = digits.mean()

    def complete(self, digits, observed, seed):
        self.shown.append((len(digits), observed))
        return Completed([("", digits)], {"seed": seed})


def test_trainings_and_tests_have_masks_of_their_own(place, monkeypatch):
    monkeypatch.setattr(Noting, "shown", [], raising=False)
    monkeypatch.setitem(FILLERS, "mean", Noting)
    judge = Judge(None, embedded_digits(large=False).test[:20], None, 1.0, "one")
    monkeypatch.setattr(table1.Judge, "of", lambda *_: judge)
    monkeypatch.setattr(Judge, "scores", lambda self, completed, observed: {"RMSE": 0.5})
    experiment = Table1(Budget(), digits=30, test_digits=20, embedded=True, tests=5)
    for number in range(2):
        found = experiment.run(f"P.M. 0.6, training {number}, mean", place).numbers
        assert found["RMSE"] == [0.5] * 5
    assert [digits for digits, _ in Noting.shown] == 2 * ([30] + 5 * [20])
    masks = {observed[:20].tobytes() for _, observed in Noting.shown}
    assert len(masks) == 12


def test_a_stopped_test_goes_on_with_the_masks_that_are_left(place, monkeypatch):
    monkeypatch.setattr(Noting, "shown", [], raising=False)
    monkeypatch.setitem(FILLERS, "mean", Noting)
    judge = Judge(None, embedded_digits(large=False).test[:20], None, 1.0, "one")
    monkeypatch.setattr(table1.Judge, "of", lambda *_: judge)
    scores = iter([0.1, 0.2, KeyboardInterrupt, 0.3, 0.4, 0.5])

    def score(self, completed, observed):
        own = next(scores)
        if own is KeyboardInterrupt:
            raise own
        return {"RMSE": own}

    monkeypatch.setattr(Judge, "scores", score)
    part = "P.M. 0.6, training 0, mean"
    experiment = Table1(Budget(), digits=30, test_digits=20, embedded=True, tests=5)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(part, place)
    found = experiment.run(part, place).numbers
    assert found["RMSE"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert found["seed"] == [1000, 1001, 1002, 1003, 1004]
    # Nobody knows how long a part took that was stopped.
    assert "seconds in all" not in found
    assert len(Noting.shown) == (1 + 3) + (1 + 3)


def test_tests_of_another_training_are_run_again(tmp_path):
    path, asked = tmp_path / "x" / "tests.json", []

    def test(seed):
        asked.append(seed)
        return {"RMSE": seed / 10}

    assert kept_scores(path, "one", [1, 2], test) == {"RMSE": [0.1, 0.2]}
    assert kept_scores(path, "one", [2, 3], test) == {"RMSE": [0.2, 0.3]}
    assert asked == [1, 2, 3]
    assert kept_scores(path, "two", [2], test) == {"RMSE": [0.2]}
    assert asked == [1, 2, 3, 2]
    for damage in (b"", b"{}", b"[1]", b'{"of": "two"}', path.read_bytes()[:-9]):
        path.write_bytes(damage)
        assert kept_scores(path, "two", [2], test) == {"RMSE": [0.2]}
    assert asked == [1, 2, 3, 2] + 5 * [2]


@pytest.mark.parametrize("method", list(FILLERS))
def test_tests_depend_on_every_bit_of_what_was_trained(method, place, monkeypatch):
    told = []
    monkeypatch.setattr(
        table1, "kept_scores", lambda path, identity, *_: told.append(identity) or {"RMSE": [0]}
    )
    smoke = experiment_of("table1", "smoke")
    for number in (0, 1):
        smoke.run(f"I.M. 0.6, training {number}, {method}", place)
    assert told[0] != told[1]
    smoke.run(f"I.M. 0.6, training 0, {method}", replace(place, output=place.output / "b"))
    assert told[2] == told[0]


def found_of(rmse, fid):
    """What a method that draws has found on two masks."""
    numbers = {f"RMSE{kind}": [own, own + 0.02] for kind, own in rmse.items()}
    numbers |= {f"FID{kind}": [own, own + 2] for kind, own in fid.items()}
    return Found(numbers | {"seconds in all": 1, "classifier's accuracy": 0.99})


def test_rows_of_the_report_are_what_they_are_called(place):
    paper = found_of({", single": 0.3, ", average": 0.2}, {", single": 30, ", average": 40})
    ours = found_of({", single": 0.25, ", average": 0.15}, {", single": 10, ", average": 20})
    cell = "S.O. 0.6"
    found = {
        f"{cell}, training 0, PL-MCMC": paper,
        f"{cell}, training 0, plmcmc": ours,
        f"{cell}, training 0, mean": found_of({"": 0.17}, {"": 90}),
        f"{cell}, training 0, MisGAN": found_of({"": 0.16}, {"": 5}),
    }
    report = Table1(Budget(), tests=2).report(found, place)
    rmse, fid = report.split("## FID")
    # E.1's numbers of Table 1, under those of ours.
    assert [line for line in rmse.splitlines() if line.startswith("| ")][1:] == [
        "| mean | 0.18(1) |",
        "| mean, the paper's | 0.1688(2) |",
        "| PL-MCMC, single | 0.31(1) |",
        "| PL-MCMC, single, the paper's | 0.152(3) |",
        "| PL-MCMC, average | 0.21(1) |",
        "| PL-MCMC, average, the paper's | 0.137(2) |",
        "| ours (plmcmc), single | 0.26(1) |",
        "| ours (plmcmc), average | 0.16(1) |",
        "| MisGAN | 0.17(1) |",
        "| MisGAN, the paper's | 0.159(2) |",
    ]
    lines = [line for line in fid.split("## Seconds")[0].splitlines() if line.startswith("| ")]
    assert lines[1:] == [
        "| mean | 91(1) |",
        "| mean, the paper's | 5.8(1) |",
        "| PL-MCMC, single | 31(1) |",
        "| PL-MCMC, single, the paper's | 1.4(2) |",
        "| PL-MCMC, average | 41(1) |",
        "| PL-MCMC, average, the paper's | 1.7(2) |",
        "| ours (plmcmc), single | 11(1) |",
        "| ours (plmcmc), average | 21(1) |",
        "| MisGAN | 6(1) |",
        "| MisGAN, the paper's | 0.6(1) |",
    ]
    assert "standard errors over 2 test masks of one training, which leave out" in rmse
    # Ours averages more draws than the paper: whoever compares must know, and FIDs are no match.
    assert "Averages are of 10 draws for PL-MCMC (the paper's: 10) and of 80 for ours" in rmse
    assert "compared" not in rmse
    assert "not with the paper's.**" in fid


def test_several_trainings_have_the_error_of_their_means(place):
    found = {
        f"I.M. 0.6, training {number}, mean": found_of({"": own}, {"": 1})
        for number, own in enumerate((0.1, 0.2, 0.3))
    }
    report = replace(Table1(Budget(), tests=2), trainings=3).report(found, place)
    # Means .11, .21, .31, deviation .1: masks within a training would make it .04.
    assert "| mean | 0.21(6) |" in report
    assert "over trainings; where there is only one training, over 2 test masks of" in report
    alone = {part: own for part, own in found.items() if "training 0" in part}
    assert "Values for a single test mask: there are no" in Table1(tests=1).report(alone, place)
    assert "over trainings; where there is only one training, there are none." in Table1(
        tests=1
    ).report(found, place)


def test_distances_by_two_classifiers_are_not_compared_in_silence(place):
    one, two = found_of({"": 0.1}, {"": 1}), found_of({"": 0.2}, {"": 2})
    one.numbers["classifier"] = two.numbers["classifier"] = "ab12"
    found = {"I.M. 0.6, training 0, mean": one, "S.O. 0.6, training 0, mean": two}
    assert "use different classifiers" not in Table1(Budget(), tests=2).report(found, place)
    two.numbers["classifier"] = "cd34"
    assert "use different classifiers" in Table1(Budget(), tests=2).report(found, place)
