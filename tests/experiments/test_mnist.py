"""Digits completed in both ways, in small; errors of known completions."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from plmcmc.data import Independent
from plmcmc.experiments import experiment_of, reproduce
from plmcmc.experiments.digits.complete_flow import FlowOfDigits
from plmcmc.experiments.digits.hidden import HiddenDigits
from plmcmc.experiments.digits.mnist import DEFAULT, PAPER, Mnist
from plmcmc.experiments.sources import embedded_digits
from plmcmc.experiments.study import Place
from plmcmc.posterior import methods


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


def test_a_smoke_run(output):
    said = []
    report = reproduce.reproduce("mnist", "smoke", output=output, progress=False, say=said.append)
    assert "nan" not in report
    for cell in experiment_of("mnist", "smoke").cells:
        for way in (PAPER, DEFAULT):
            assert f"| {cell}, {way} |" in report
            name = f"{cell}-{way}".replace(" ", "-")
            for own in (name, f"{name}-progress"):
                assert (output / "mnist-smoke" / f"{own}.png").stat().st_size > 1000
    assert not list((output / "mnist-smoke").glob("*.checkpoint"))
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


def test_full_is_the_paper_s():
    full = experiment_of("mnist", "full")
    # As the paper has it, but for how a GPU computes while the flow learns.
    assert replace(full, flow=FlowOfDigits()) == Mnist()
    assert (full.flow.width, full.flow.epochs) == (1000, 1000)
    assert (full.proposals, full.chains, full.every) == (2000, 20, 200)
    assert (full.perturb, full.resample, full.auxiliary) == (0.05, 0.5, 1e-3)
    assert full.parts()[1:3] == ["I.M. 0.6, PL-MCMC", "I.M. 0.6, default"]
    assert "S.O. 0.8, PL-MCMC" in full.parts()
