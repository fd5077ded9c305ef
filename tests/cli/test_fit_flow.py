"""`plmcmc fit-flow`: images to a flow on disk, what it says, and what it refuses."""

import numpy as np
import pytest
import torch
from PIL import Image

from plmcmc.cli import fit_flow as command
from plmcmc.cli import main
from plmcmc.cli.fit_flow import _mirrored
from plmcmc.flows import NICE, Glow, load, log_prob
from plmcmc.tables import job
from plmcmc.training import fit

SMALL = ["--levels", "1", "--steps", "1", "--width", "8", "--epochs", "2", "--batch-size", "32"]


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    smooth = 128 + 40 * rng.normal(size=(60, 1, 1, 3)) + 8 * rng.normal(size=(60, 4, 4, 3))
    np.save(tmp_path / "images.npy", smooth.clip(0, 255).astype(np.uint8))
    return tmp_path / "images.npy"


def run(data, *options):
    return main(["fit-flow", str(data), "-o", str(data.parent / "flow"), *options])


@pytest.mark.parametrize(
    ("options", "family"),
    [
        (SMALL, Glow),
        (["--flow", "nice", "--width", "16", "--depth", "1", "--epochs", "2"], NICE),
        ([*SMALL, "--bits", "5", "--coupling", "additive"], Glow),
    ],
)
def test_a_flow_is_written_that_takes_images_as_they_are(data, options, family, capsys):
    assert run(data, *options, "--test", str(data)) == 0
    said = capsys.readouterr().out
    assert "60 images of 4 x 4 x 3" in said
    assert "bits per value on held-out images" in said
    assert f"Images of {data}: " in said
    flow = load(data.parent / "flow")
    assert isinstance(flow.flow, family)
    bits = int(options[options.index("--bits") + 1]) if "--bits" in options else 8
    x = torch.as_tensor(np.load(data) // 2 ** (8 - bits)).float()
    assert torch.isfinite(log_prob(flow, x)).all()
    with Image.open(data.parent / "flow.png") as sheet:
        assert sheet.size[0] > 8 * 48
    assert not (data.parent / "flow.part").exists()


def test_stopped_while_files_took_their_places_it_takes_no_others(data, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        # What a kill leaves: results in their places, and all that was kept.
        patch.setattr(job, "_remove", lambda *given: None)
        assert run(data, *SMALL) == 0
    precious = data.parent / "precious.png"
    precious.write_bytes(b"mine")
    assert run(data, *SMALL, "--samples", str(precious)) == 2
    assert "precious.png exists: choose another name" in capsys.readouterr().err
    assert precious.read_bytes() == b"mine"
    assert run(data, *SMALL) == 0
    assert not (data.parent / "flow.part").exists()


def test_it_goes_on_after_an_interrupt_to_the_same_flow(data, monkeypatch, capsys):
    options = [*SMALL[:-4], "--epochs", "4", "--batch-size", "32"]
    assert run(data, *options) == 0
    whole = (data.parent / "flow" / "weights.safetensors").read_bytes()
    original = fit.Epoch.step

    def stopped(self, state, streams):
        if int(state.epoch) == 2:
            raise KeyboardInterrupt
        return original(self, state, streams)

    monkeypatch.setattr(fit.Epoch, "step", stopped)
    assert run(data, *options, "--overwrite") == 130
    assert "run the same command again to resume" in capsys.readouterr().err
    monkeypatch.setattr(fit.Epoch, "step", original)
    assert run(data, *options, "--overwrite") == 0
    assert "Resuming from" in capsys.readouterr().out
    assert (data.parent / "flow" / "weights.safetensors").read_bytes() == whole


def test_it_goes_on_after_a_stop_between_its_two_files(data, monkeypatch, capsys):
    options = [*SMALL[:-4], "--epochs", "2", "--batch-size", "32"]

    def stopped(*given, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(command, "save", stopped)
        assert run(data, *options) == 130
    assert (data.parent / "flow.png").exists()
    assert not (data.parent / "flow").exists()
    sheet = (data.parent / "flow.png").read_bytes()
    assert run(data, *options) == 0
    assert (data.parent / "flow.png").read_bytes() == sheet
    assert not (data.parent / "flow.part").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bits", "9"], "--bits must be 1 to 8; got 9"),
        (["--temperature", "0"], "--temperature must be above 0"),
        (["--samples", "sheet.jpg"], "ends in .png"),
        (["--flow", "nice", "--levels", "2"], "--levels does not apply to --flow nice"),
        (["--depth", "2"], "--depth does not apply to --flow glow"),
        (["--levels", "3"], "multiples of 8"),
        (["--levels", "1", "--epochs", "0"], "epochs must be at least 1"),
        (["--levels", "1", "--held-out", "1.5"], "held_out must be a fraction"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--device", "gpu"], "--device 'gpu' cannot be used"),
        (["--first", "0"], "first must be at least 1"),
        (["--test", "missing.npy"], "missing.npy"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_written(data, options, message, capsys):
    assert run(data, *options) == 2
    assert message in capsys.readouterr().err
    assert sorted(p.name for p in data.parent.iterdir()) == ["images.npy"]


def test_test_images_of_another_size_are_refused(data, tmp_path, capsys):
    np.save(tmp_path / "other.npy", np.zeros((3, 8, 8, 3), np.uint8))
    assert run(data, *SMALL, "--test", str(tmp_path / "other.npy")) == 2
    assert "expected images of (4, 4, 3)" in capsys.readouterr().err


def test_an_output_that_is_there_is_kept(data, capsys):
    (data.parent / "flow").mkdir()
    assert run(data, *SMALL) == 2
    assert "pass --overwrite" in capsys.readouterr().err


def test_mirrored_images_are_whole_images_turned_or_not():
    images = torch.arange(40 * 4 * 4 * 3).reshape(40, 4, 4, 3).float()
    found = _mirrored(images, torch.Generator().manual_seed(0))
    turned = (found == images.flip(2)).flatten(1).all(1)
    assert (turned ^ (found == images).flatten(1).all(1)).all()
    # Of 40 fair coins, fewer than 8 or more than 32 fall so once in 20,000.
    assert 8 <= int(turned.sum()) <= 32


@pytest.mark.parametrize("option", [["--mirror"], ["--noise", "0.1"]])
def test_options_of_training_change_what_is_learned(data, option):
    learned = []
    for own in ([], option):
        assert run(data, *SMALL, *own, "--overwrite") == 0
        learned.append((data.parent / "flow" / "weights.safetensors").read_bytes())
    assert learned[0] != learned[1]
