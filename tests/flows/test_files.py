"""Flows come back from files bit for bit, and nothing else is lost when they are saved."""

import json
import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from flow_cases import CASES, DTYPES, nice, realnvp, rows_of, shaken
from plmcmc.flows import (
    NICE,
    Dequantise,
    Linear,
    Logit,
    Preprocessed,
    RealNVP,
    Step,
    Whiten,
    load,
    save,
)
from plmcmc.flows.files import _planned, describe
from plmcmc.flows.sizes import layers
from plmcmc.storage.strict_json import Fields


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "deep" / "flow"


@pytest.fixture
def saved(path) -> Path:
    return save(CASES["all steps"](), path)


def content(path: Path) -> dict[str, bytes]:
    """Return every file below a directory."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.*")}


class Fitted(NamedTuple):
    """What training returns, or like it."""

    flow: object


class Foreign(nn.Module):
    """Another library's flow."""

    def __init__(self):
        super().__init__()
        self.flow = nice(4)
        self.to_latent, self.to_data = self.flow.to_latent, self.flow.to_data
        self.latent_log_prob = self.flow.latent_log_prob
        self.latent_sample = self.flow.latent_sample


class Doubled(Step):
    """A step that someone else wrote."""

    name = "logit"

    def __init__(self):
        super().__init__()
        self.config = {}

    def to_latent(self, x):
        return 2 * x, torch.zeros(len(x))

    def to_data(self, z):
        return z / 2, torch.zeros(len(z))


class Derived(NICE):
    """A flow that someone derived from ours."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_a_flow_comes_back_bit_for_bit(build, dtype, path):
    flow = build().to(dtype)
    assert save(flow, path) == path
    found = load(path)
    assert type(found) is type(flow)
    assert not found.training
    x = rows_of(flow)
    z, log_det = flow.to_latent(x)
    assert torch.equal(found.to_latent(x)[0], z)
    assert torch.equal(found.to_latent(x)[1], log_det)
    for one, other in zip(found.to_data(z), flow.to_data(z), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    assert torch.equal(found.latent_log_prob(z), flow.latent_log_prob(z))
    assert torch.equal(rows_of(found), x)


def test_a_path_may_be_a_string(path):
    save(nice(4), str(path))
    assert isinstance(load(str(path)), NICE)


def test_a_flow_can_be_saved_again_and_trained_on(saved, path):
    flow = load(saved)
    again = path.with_name("again")
    save(flow, again)
    assert content(again) == content(saved)
    assert all(parameter.requires_grad for parameter in flow.parameters())


def test_a_saved_flow_holds_numbers_and_text_only(saved):
    assert sorted(file.name for file in saved.iterdir()) == ["config.json", "weights.safetensors"]
    for file in saved.iterdir():
        start = file.read_bytes()[:64]
        # The first bytes of zip archives, which torch.save writes, and of pickles.
        assert not start.startswith((b"PK", b"\x80"))
    assert json.loads((saved / "config.json").read_text())["format"] == "plmcmc-flow"
    assert "flow.shift" in load_file(saved / "weights.safetensors")


def test_loading_and_saving_leave_torchs_generator_alone(path):
    flow = nice(4)
    before = torch.get_rng_state()
    save(flow, path)
    load(path)
    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_taken_from_arrays_can_be_saved(path):
    # As in Logit(images.min(), images.max()): JSON knows neither numpy's nor torch's numbers.
    steps = [Dequantise(np.int64(4)), Logit(np.float32(-0.1), torch.tensor(1.1))]
    flow = Preprocessed(steps, nice(4))
    save(flow, path)
    x = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    assert torch.equal(load(path).to_latent(x)[0], flow.to_latent(x)[0])


def test_nothing_is_overwritten_unasked(saved):
    before = content(saved)
    with pytest.raises(FileExistsError, match=r"flow exists: .*pass overwrite=True"):
        save(nice(6), saved)
    assert content(saved) == before


def test_a_saved_flow_is_overwritten_when_asked(saved):
    flow = shaken(realnvp(3))
    save(flow, saved, overwrite=True)
    x = rows_of(flow)
    assert torch.equal(load(saved).to_latent(x)[0], flow.to_latent(x)[0])
    assert [entry.name for entry in saved.parent.iterdir()] == ["flow"]


def test_an_empty_directory_is_overwritten_when_asked(tmp_path):
    assert isinstance(load(save(nice(4), tmp_path / "new", overwrite=True)), NICE)
    (tmp_path / "empty").mkdir()
    assert isinstance(load(save(nice(4), tmp_path / "empty", overwrite=True)), NICE)


@pytest.mark.parametrize("name", ["results/thesis.tex", "results/notes/page", "results"])
def test_what_is_not_a_flow_is_never_overwritten(name, tmp_path):
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("precious")
    with pytest.raises(
        FileExistsError, match=r"results is not a saved flow, or contains other files"
    ):
        save(nice(4), tmp_path / "results", overwrite=True)
    assert file.read_text() == "precious"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (Foreign, "plmcmc's own flows .*got Foreign: save that one as its own library does"),
        (lambda: nn.Linear(2, 2), "plmcmc's own flows .*got Linear"),
        (lambda: Derived(4), "plmcmc's own flows .*got Derived"),
        (lambda: Preprocessed([Doubled()], nice(4)), "plmcmc's own steps .*got Doubled"),
        (lambda: Preprocessed([], Foreign()), "plmcmc's own flows .*got Foreign"),
        (object, "only plmcmc's own flows can be saved; got object"),
        (lambda: Fitted(nice(4)), r"got Fitted \(save its \.flow\)"),
    ],
)
def test_a_foreign_flow_is_refused_and_nothing_written(build, message, path):
    with pytest.raises(TypeError, match=message):
        save(build(), path)
    assert not path.parent.exists()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("step", ["plmcmc.disk._write", "plmcmc.disk._swap"])
def test_nothing_is_half_written_when_saving_fails(step, overwrite, path, monkeypatch):
    if overwrite:
        save(nice(4), path)
    else:
        path.parent.mkdir()
    before = content(path.parent)

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="no space left"):
        save(realnvp(4), path, overwrite=overwrite)
    assert content(path.parent) == before
    assert len(list(path.parent.iterdir())) == overwrite


def test_the_old_flow_stays_when_the_new_one_cannot_take_its_place(saved, monkeypatch):
    before = content(saved)
    replace = os.replace

    def fail(source, target):
        if Path(target) == saved and Path(source).name.count("replaced") == 0:
            raise OSError("disk on fire")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk on fire"):
        save(nice(4), saved, overwrite=True)
    assert content(saved) == before
    assert [entry.name for entry in saved.parent.iterdir()] == ["flow"]


def test_a_name_that_ends_in_zip_makes_one_file(saved, tmp_path):
    flow, path = load(saved), tmp_path / "one" / "flow.zip"
    assert save(flow, path) == path
    x = rows_of(flow)
    assert torch.equal(load(path).to_latent(x)[0], flow.to_latent(x)[0])
    with zipfile.ZipFile(path) as archive:
        assert {n: archive.read(n) for n in archive.namelist()} == content(saved)
    assert [entry.name for entry in path.parent.iterdir()] == ["flow.zip"]
    # The same whenever it is written.
    assert save(flow, tmp_path / "again.zip").read_bytes() == path.read_bytes()


def test_an_archive_is_overwritten_only_when_asked_and_only_a_flow(tmp_path):
    path = save(nice(4), tmp_path / "flow.zip")
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        save(nice(6), path)
    assert load(save(nice(6), path, overwrite=True)).features == 6
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("holiday.jpg", b"precious")
    before = (tmp_path / "photos.zip").read_bytes()
    with pytest.raises(FileExistsError, match="is not a saved flow, or contains other files"):
        save(nice(4), tmp_path / "photos.zip", overwrite=True)
    assert (tmp_path / "photos.zip").read_bytes() == before


def test_an_archive_is_not_half_written_when_saving_fails(tmp_path, monkeypatch):
    path = save(nice(4), tmp_path / "flow.zip")
    before = path.read_bytes()

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr("plmcmc.disk._write", fail)
    with pytest.raises(OSError, match="no space left"):
        save(nice(6), path, overwrite=True)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["flow.zip"]


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_a_description_tells_how_many_numbers_a_flow_holds(build):
    flow = build()
    plan = _planned(Fields(describe(flow), "config.json, flow"))
    assert plan.numbers == sum(tensor.numel() for tensor in flow.state_dict().values())
    assert layers(plan.config) <= len(flow.state_dict())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_flow_on_a_gpu_comes_back_on_the_cpu(path):
    flow = CASES["all steps"]()
    save(flow.cuda(), path)
    found, expected = load(path), CASES["all steps"]()
    x = rows_of(expected)
    assert torch.equal(found.to_latent(x)[0], expected.to_latent(x)[0])


def test_families_and_steps_all_have_a_case():
    named = {type(part) for build in CASES.values() for part in build().modules()}
    assert {Linear, NICE, RealNVP, Preprocessed, Whiten, Logit, Dequantise} <= named
