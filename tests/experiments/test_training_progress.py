"""Training digits as imputed early and late: the short training is the long one's beginning."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from plmcmc.data import Independent
from plmcmc.experiments import experiment_of, reproduce
from plmcmc.experiments.algorithm1 import whitening_of
from plmcmc.experiments.digits.incomplete_flow import FlowOfHoledDigits
from plmcmc.experiments.sources import embedded_digits
from plmcmc.experiments.study import Place
from plmcmc.training import MonteCarloEM, resuming
from plmcmc.training.completed import CompletedEpoch

TRAINING = experiment_of("training-progress", "smoke").training

# Of every setting, a value that is neither the paper's nor the smoke run's.
OTHERWISE: dict[str, Any] = {
    "width": 12,
    "epochs": 9,
    "every": 3,
    "later": 5,
    "proposals": 4,
    "learning_rate": 3e-3,
    "precision": "tf32",
    "compiled": True,
}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, tmp_path / "shared", progress=False)


@pytest.fixture(scope="module")
def digits():
    return embedded_digits(large=False).train[:64]


@pytest.fixture(scope="module")
def observed(digits):
    return Independent(0.6)(digits, 0)


def test_a_smoke_run(tmp_path):
    said, name = [], "training-progress"
    report = reproduce.reproduce(name, "smoke", output=tmp_path, progress=False, say=said.append)
    for own in ("I.M.-0.6", "P.M.-0.6", "training"):
        assert (tmp_path / f"{name}-smoke" / f"{own}.png").stat().st_size > 1000
        assert f"({own}.png)" in report
    assert "| after epoch 6 |" in report
    assert "nan" not in report
    again = []
    assert reproduce.reproduce(name, "smoke", output=tmp_path, say=again.append) == report
    assert again[0].startswith(f"{name} (smoke): 0 of 4")


def test_a_report_of_the_beginning_alone(tmp_path):
    report = reproduce.reproduce(
        "training-progress",
        "smoke",
        output=tmp_path,
        only="first",
        progress=False,
        say=lambda words: None,
    )
    assert "2 of 4 parts" in report
    assert "accepted" not in report


def test_the_first_round_alone_is_the_long_training_s(digits, observed, place, monkeypatch):
    """Completions after the first E-step are the same, whatever comes after it."""
    rounds, expect = [], CompletedEpoch._expect

    def watched(self, completed, epoch):
        found = expect(self, completed, epoch)
        rounds.append((epoch, found[0].clone()))
        return found

    monkeypatch.setattr(CompletedEpoch, "_expect", watched)
    long = TRAINING.trained(digits, observed, place)
    assert [epoch for epoch, _ in rounds] == [2, 4, 6]
    short = TRAINING.first_round.trained(digits, observed, place)
    (epoch, last), first = rounds[-1], rounds[0][1]
    assert epoch == 2
    assert torch.equal(last, first)
    assert len(short.acceptance) == 1
    assert short.acceptance[0] == long.acceptance[0]
    np.testing.assert_array_equal(short.losses[:2], long.losses[:2])
    # They are not the end's, nor another seed's.
    assert not np.array_equal(short.completed, long.completed)
    TRAINING.first_round.trained(digits, observed, place, seed=1)
    assert not torch.equal(rounds[-1][1], first)


def test_what_is_trained_is_kept_and_other_data_is_told_apart(digits, observed, place, monkeypatch):
    one = TRAINING.trained(digits, observed, place)
    np.testing.assert_array_equal(one.completed[observed.reshape(64, -1)], digits[observed])
    monkeypatch.setattr(MonteCarloEM, "fit", lambda *_, **__: pytest.fail("trained again"))
    two = TRAINING.trained(digits, observed, place)
    for mine, theirs in zip(one[1:], two[1:], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    x = torch.as_tensor(one.completed)
    assert torch.equal(one.flow.to_latent(x)[0], two.flow.to_latent(x)[0])
    for other in ((digits[:, ::-1].copy(), observed), (digits, observed[:, ::-1].copy())):
        with pytest.raises(BaseException, match="trained again"):
            TRAINING.trained(*other, place)
    for setting, value in OTHERWISE.items():
        with pytest.raises(BaseException, match="trained again"):
            replace(TRAINING, **{setting: value}).trained(digits, observed, place)


def test_every_setting_is_one_of_the_training():
    assert list(OTHERWISE) == [own.name for own in fields(FlowOfHoledDigits)]
    schedule = FlowOfHoledDigits(**OTHERWISE).schedule
    told = {name: value for name, value in OTHERWISE.items() if name not in ("width", "later")}
    assert {name: getattr(schedule, name) for name in told} == told
    assert [epoch for epoch, _ in schedule.later] == [OTHERWISE["later"]]


def test_training_goes_on_where_it_was_stopped(digits, observed, tmp_path, monkeypatch):
    straight = TRAINING.trained(digits, observed, Place(tmp_path, tmp_path / "a", progress=False))
    place, expect, epochs = (
        Place(tmp_path, tmp_path / "b", progress=False),
        CompletedEpoch._expect,
        [],
    )

    def stopped(self, completed, epoch):
        epochs.append(epoch)
        if epochs == [2, 4, 6]:
            raise KeyboardInterrupt
        return expect(self, completed, epoch)

    monkeypatch.setattr(CompletedEpoch, "_expect", stopped)
    # However long a save takes.
    monkeypatch.setattr(resuming, "REST", 0.0)
    with pytest.raises(KeyboardInterrupt):
        TRAINING.trained(digits, observed, place)
    resumed = TRAINING.trained(digits, observed, place)
    assert epochs == [2, 4, 6, 6]
    for mine, theirs in zip(straight[1:], resumed[1:], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not list(place.shared.glob("*.checkpoint"))


def test_the_e_step_at_epoch_500_draws_as_later_ones_do():
    full = experiment_of("training-progress", "full")
    drawn = [full.training.schedule.method_after(epoch).resample for epoch in (450, 500, 550)]
    assert drawn == [1.814, 0.5, 0.5]
    told = " ".join(full.readings)
    for words in (
        "at the end of epoch 500 already uses .5",
        "4 couplings with 5 hidden layers",
        "possibly extending beyond it",
        "with a scale of 1",
        "bfloat16",
    ):
        assert words in told
    # No square is observed here.
    assert "S.O." not in told


def test_pixels_that_never_vary_are_only_centred(digits, observed, place):
    flow = TRAINING.trained(digits, observed, place).flow
    rows, seen = digits.reshape(64, -1), observed.reshape(64, -1)
    still = np.array([len(set(own[there])) <= 1 for own, there in zip(rows.T, seen.T, strict=True)])
    scale = whitening_of(flow)[1]
    assert 0 < still.sum() < len(still)
    assert (scale[still] == 1).all()
    assert (scale[~still] != 1).all()


def test_full_is_the_paper_s():
    full = experiment_of("training-progress", "full").training
    assert replace(full, precision="float32", compiled=False) == FlowOfHoledDigits()
    schedule = full.schedule
    assert (schedule.epochs, schedule.every, schedule.proposals) == (1000, 50, 2000)
    assert schedule.method.resample == 1.814
    assert schedule.later[0][0] == 500
    assert schedule.later[0][1].resample == 0.5
    assert full.first_round.epochs == 51
