"""Digits completed in both ways, in small; errors of known completions."""

import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plmcmc.chains import Unconditional
from plmcmc.data import Independent, Patch, SquareObservation
from plmcmc.experiments import experiment_of, reproduce
from plmcmc.experiments.digits import mnist as module
from plmcmc.experiments.digits.complete_flow import FlowOfDigits
from plmcmc.experiments.digits.hidden import HiddenDigits
from plmcmc.experiments.digits.mnist import CELLS, DEFAULT, PAPER, SHOWN, Mnist
from plmcmc.experiments.pictures import COVER, as_bytes
from plmcmc.experiments.sources import embedded_digits
from plmcmc.experiments.study import Place
from plmcmc.posterior import Draws, methods
from plmcmc.target import NormalAuxiliary
from plmcmc.training import MonteCarloEM


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


def test_a_smoke_run(output):
    said = []
    report = reproduce.reproduce("mnist", "smoke", output=output, progress=False, say=said.append)
    assert "nan" not in report
    for cell in experiment_of("mnist", "smoke").cells:
        for way in (PAPER, DEFAULT):
            assert f"| {cell}, {SHOWN[way]} |" in report
            name = f"{cell}-{way}".replace(" ", "-")
            for own in (name, f"{name}-progress"):
                assert (output / "mnist-smoke" / f"{own}.png").stat().st_size > 1000
    assert not list((output / "mnist-smoke").glob("*.checkpoint"))
    # One name for each sampler: those of parts stand only where parts are named.
    shown = report.partition("## Results")[2].partition("## How we read the paper")[0]
    assert [*SHOWN.values()] == ["PL-MCMC (Algorithm 1)", "plmcmc's default sampler"]
    for words in ("PL-MCMC |", "default |", "PL-MCMC\n", "default\n"):
        assert words not in shown
    again = []
    assert reproduce.reproduce("mnist", "smoke", output=output, say=again.append) == report
    assert again[0].startswith("mnist (smoke): 0 of 3")


def test_parts_are_the_same_twice_and_of_another_seed_not(output, tmp_path, monkeypatch):
    place, experiment = (
        Place(tmp_path, output / "shared", progress=False),
        experiment_of("mnist", "smoke"),
    )
    for way in (PAPER, DEFAULT):
        one, two = (experiment.run(f"P.M. 0.6, {way}", place) for _ in range(2))
        assert one.numbers | {"seconds": 0} == two.numbers | {"seconds": 0}
        for key, array in one.arrays.items():
            np.testing.assert_array_equal(two.arrays[key], array)
        # As `reproduce` does, once numbers are kept.
        shutil.rmtree(place.checkpoint(f"P.M. 0.6, {way}"), ignore_errors=True)
    monkeypatch.setattr("plmcmc.experiments.digits.mnist.SEED", 1)
    other = experiment.run(f"P.M. 0.6, {PAPER}", place)
    assert other.numbers["RMSE of a completion"] != one.numbers["RMSE of a completion"]


def test_chains_walk_in_whitened_units_from_cool_samples(tmp_path, monkeypatch):
    seen, begin = [], methods.Metropolis.begin

    def watched(self, batch, y, warmup, streams):
        seen.append((batch.data, y, self))
        return begin(self, batch, y, warmup, streams)

    monkeypatch.setattr(methods.Metropolis, "begin", watched)
    experiment = replace(experiment_of("mnist", "smoke"), temperature=1e-6)
    experiment.run(f"I.M. 0.6, {PAPER}", Place(tmp_path, tmp_path / "shared", progress=False))
    (data, y, method), digits = seen[0], embedded_digits(large=False)
    mean, scale = digits.train.mean(0).ravel(), digits.train.std(0).ravel()
    pixels = data.values.numpy() * np.where(scale > 0, scale, 1) + mean
    truth = digits.test[:3].reshape(3, -1).repeat(experiment.chains, 0)
    np.testing.assert_allclose(pixels[data.observed], truth[data.observed], atol=1e-4)
    # Observed pixels are not put in: all chains begin at the flow's centre.
    assert float((y - y[0]).abs().max()) < 1e-3
    assert (method.perturb, method.resample, float(method.auxiliary.scale)) == (0.05, 0.5, 1e-3)


@pytest.fixture
def chains(output, tmp_path, monkeypatch):
    """Run cells by chains whose ends are given; return what is found and what was asked."""
    asked, place = [], Place(tmp_path, output / "shared", progress=False)

    def ended(posterior, method, start, part, place, **counts):
        asked.append(SimpleNamespace(data=posterior.data, method=method, start=start, **counts))
        rows, columns = posterior.data.values.shape
        # Whole draws, the last of which counts; each chain's are its own.
        source = np.random.default_rng(0)
        values = source.normal(size=(counts["chains"], 5, rows, columns))
        seen = posterior.data.observed.cpu().numpy()
        rate = np.full((counts["chains"], rows), 0.5)
        draws = Draws(values, seen, rate, 40, 0, True, "some", 0)
        asked[-1].values, asked[-1].initial = values, source.normal(size=(rows, columns))
        return draws, asked[-1].initial

    monkeypatch.setattr(module, "progression", ended)

    def run(cell, **changes):
        study = replace(experiment_of("mnist", "smoke"), **changes)
        return study.run(f"{cell}, {PAPER}", place), asked[-1]

    return run


def test_chains_get_the_paper_s_settings_and_start(chains):
    full = experiment_of("mnist", "full")
    names = ("proposals", "every", "chains", "perturb", "resample", "auxiliary", "temperature")
    _, asked = chains("P.M. 0.6", **{name: getattr(full, name) for name in names})
    assert asked.method == methods.Metropolis(0.05, 0.5, NormalAuxiliary(1e-3))
    assert asked.start == Unconditional(0.5, projected=False)
    assert (asked.proposals, asked.every, asked.chains) == (2000, 200, 20)


def test_the_mean_is_over_the_last_completions_of_all_chains(chains):
    """In pixels: whitened, a pixel's own mean and deviation bring it back; then clamped (E.1)."""
    found, asked = chains("P.M. 0.6", chains=20)
    digits = embedded_digits(large=False)
    train = digits.train.reshape(len(digits.train), -1).astype(np.float64)
    truth = digits.test[:3].reshape(3, -1).astype(np.float64)
    seen = asked.data.observed.numpy()
    scale = np.where(train.std(0) > 0, train.std(0), 1)
    ends = (asked.values[:, -1] * scale + train.mean(0)).clip(train.min(0), train.max(0))
    assert ends.shape[0] == 20

    def error(filled):
        squares = np.where(seen, 0, np.square(filled - truth))
        return np.sqrt(squares.sum(1) / (~seen).sum(1)).mean()

    assert found.numbers["RMSE of the mean"] == pytest.approx(error(ends.mean(0)), abs=2e-5)
    each = np.mean([error(own) for own in ends])
    assert found.numbers["RMSE of a completion"] == pytest.approx(each, abs=2e-5)
    assert each > found.numbers["RMSE of the mean"]
    # What is shown as the mean is it, too.
    expected = as_bytes(np.where(seen, truth, ends.mean(0))).reshape(3, 8, 8)
    assert np.abs(found.arrays["mean"].astype(int) - expected).max() <= 1


def within_range(pixels, digits):
    """Return completions clamped to what each pixel is in the training set."""
    train = digits.train.reshape(len(digits.train), -1)
    return pixels.clip(train.min(0), train.max(0))


def shown(pixels, seen, digits):
    """Return completions as pictures, with what is seen put in."""
    truth = digits.test[:3].reshape(3, -1)
    filled = np.where(seen, truth, within_range(pixels, digits))
    return as_bytes(filled).reshape(*pixels.shape[:-1], 8, 8).astype(int)


def test_a_progression_is_in_pixels_from_its_first_picture_on(chains):
    found, asked = chains("P.M. 0.6")
    digits = embedded_digits(large=False)
    scale = digits.train.std(0).ravel()
    states = np.concatenate([asked.initial[None], asked.values[0]])
    pixels = states * np.where(scale > 0, scale, 1) + digits.train.mean(0).ravel()
    expected = shown(pixels, asked.data.observed.numpy(), digits)
    assert found.arrays["progress"].shape == (6, 3, 8, 8)
    assert np.abs(found.arrays["progress"].astype(int) - expected).max() <= 1
    assert found.numbers["progress"] == [f"{4 * step} proposals" for step in range(6)]


def test_the_default_s_mean_is_over_all_its_draws(output, tmp_path, monkeypatch):
    """Of all chains; what is called a completion is each chain's last."""
    given, digits = [], embedded_digits(large=False)

    def conditioned(_flow, truth, observed):
        def sample(count, *, chains, **_options):
            values = np.random.default_rng(0).random((chains, count, *truth.shape))
            rate = np.full((chains, len(truth)), 0.5)
            given.append(Draws(values, observed, rate, 40, 20, True, "some", 0))
            return given[0]

        return SimpleNamespace(sample=sample)

    monkeypatch.setattr(module, "condition", conditioned)
    place = Place(tmp_path, output / "shared", progress=False)
    found = experiment_of("mnist", "smoke").run(f"P.M. 0.6, {DEFAULT}", place)
    (draws,) = given
    assert draws.values.shape[:2] == (2, 4)
    pictures = found.arrays
    mean, last = (
        shown(own, draws.observed, digits)
        for own in (within_range(draws.values, digits).mean((0, 1)), draws.values[0, -1])
    )
    assert np.abs(pictures["mean"].astype(int) - mean).max() <= 1
    assert np.abs(pictures["last"].astype(int) - last).max() <= 1
    # Pictures of how one chain goes on are its own draws.
    steps = shown(draws.values[0], draws.observed, digits)
    assert np.abs(pictures["progress"].astype(int) - steps).max() <= 1
    # Negative control: the mean of the last draws alone is another picture.
    ends = shown(within_range(draws.values[:, -1], digits).mean(0), draws.observed, digits)
    assert np.abs(ends - mean).max() > 1


def test_every_cell_has_its_own_masks(chains):
    """Those of its mechanism and rate, and no pixel is told that they hide."""
    images = embedded_digits(large=False).test[:3]
    hide = {
        "I.M. 0.6": Independent(0.6),
        "P.M. 0.6": Patch(0.6),
        "S.O. 0.8": SquareObservation(0.8, exact=False),
    }
    assert [*hide] == [*CELLS] == [*experiment_of("mnist", "full").cells]
    for cell, mechanism in hide.items():
        found, asked = chains(cell)
        seen = asked.data.observed.numpy()
        np.testing.assert_array_equal(seen, mechanism(images, 0).reshape(3, -1))
        assert not asked.data.values.numpy()[~seen].any()
        covered = (found.arrays["seen"].reshape(3, -1, 3) == COVER).all(-1)
        np.testing.assert_array_equal(covered, ~seen)


def test_how_the_paper_is_read_is_told():
    told = " ".join(experiment_of("mnist", "full").readings)
    for words in (
        "Masks (D.3, E.1): S.O. shows one square of a fixed side",
        "possibly extending beyond it",
        "4 couplings with 5 hidden layers",
        "bfloat16",
        "with a scale of 1",
    ):
        assert words in told
    assert not re.search(r"plmcmc(?!'s default sampler)", told)


def test_errors_of_known_completions():
    digits = embedded_digits(large=False)
    task = HiddenDigits.of(digits, 5, Independent(0.5), 0)
    found = task.errors(np.stack([task.truth, task.truth + 0.2]), task.truth + 0.1)
    assert found["RMSE of a completion"] == pytest.approx(0.1)
    assert found["RMSE of the mean"] == pytest.approx(0.1)
    assert 0.1 < found["RMSE of the training mean"] < 0.5
    # What is seen is never wrong, what is hidden stays in the range of the training set.
    wild = task.within(np.full((2, *task.truth.shape), 9.0))
    np.testing.assert_array_equal(wild[1][task.observed], task.truth[task.observed])
    train = digits.train.reshape(len(digits.train), -1)
    expected = np.broadcast_to(train.max(0), task.truth.shape)
    np.testing.assert_allclose(wild[0][~task.observed], expected[~task.observed])


def test_the_flow_is_trained_once_for_the_same_digits_and_settings(tmp_path, monkeypatch):
    place = Place(tmp_path, tmp_path / "shared", progress=False)
    digits, training = embedded_digits(large=False).train[:20], FlowOfDigits(width=4, epochs=1)
    one = training.trained(digits, place)
    monkeypatch.setattr(MonteCarloEM, "fit", lambda *_, **__: pytest.fail("trained again"))
    two, x = training.trained(digits, place), torch.as_tensor(digits).flatten(1)
    assert torch.equal(one.to_latent(x)[0], two.to_latent(x)[0])
    others = ({"width": 5}, {"epochs": 2}, {"precision": "tf32"}, {"compiled": True})
    for other, seen, seed in (
        *((replace(training, **own), digits, 0) for own in others),
        (training, digits[::-1].copy(), 0),
        (training, digits, 1),
    ):
        with pytest.raises(BaseException, match="trained again"):
            other.trained(seen, place, seed)


def test_the_flow_is_trained_as_it_says(tmp_path, monkeypatch):
    trained, digits = [], embedded_digits(large=False).train[:20]

    def noted(self, flow, *_, **__):
        trained.append((self.schedule, flow.config["width"]))
        raise InterruptedError

    monkeypatch.setattr(MonteCarloEM, "fit", noted)
    training = FlowOfDigits(width=4, epochs=40, precision="tf32", compiled=True)
    with pytest.raises(InterruptedError):
        training.trained(digits, Place(tmp_path, tmp_path, progress=False))
    ((schedule, width),) = trained
    assert (width, schedule.epochs, schedule.every) == (4, 40, 2)
    assert (schedule.precision, schedule.compiled) == ("tf32", True)


def test_full_is_the_paper_s():
    full = experiment_of("mnist", "full")
    # As the paper has it, but for how a GPU computes while the flow learns.
    assert replace(full, flow=FlowOfDigits()) == Mnist()
    assert (full.flow.width, full.flow.epochs) == (1000, 1000)
    assert (full.proposals, full.chains, full.every) == (2000, 20, 200)
    assert (full.perturb, full.resample, full.auxiliary) == (0.05, 0.5, 1e-3)
    assert full.parts()[1:3] == ["I.M. 0.6, PL-MCMC", "I.M. 0.6, default"]
    assert "S.O. 0.8, PL-MCMC" in full.parts()
