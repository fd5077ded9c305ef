"""A damaged or foreign file is no flow, and the error says which file and why."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from flow_cases import CASES
from plmcmc.flows import FileError, Preprocessed, load, save


@pytest.fixture
def saved(tmp_path) -> Path:
    return save(CASES["all steps"](), tmp_path / "flow")


def edit(path: Path, **changes) -> None:
    """Change entries of a saved flow's description."""
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | changes))


def truncate(path: Path, name: str, share: float) -> None:
    whole = (path / name).read_bytes()
    (path / name).write_bytes(whole[: int(share * len(whole))])


def reshape_weights(path: Path) -> None:
    tensors = load_file(path / "weights.safetensors")
    tensors["flow.shift"] = torch.zeros(5)
    save_file(tensors, path / "weights.safetensors")


def drop_weight(path: Path) -> None:
    tensors = load_file(path / "weights.safetensors")
    del tensors["flow.shift"]
    save_file(tensors, path / "weights.safetensors")


def of_flow(**config):
    return {"name": "nice", "config": {"features": 4, "latent": "normal"} | config}


DAMAGE = {
    "weights cut short": (lambda p: truncate(p, "weights.safetensors", 0.7), "damaged"),
    "weights empty": (lambda p: truncate(p, "weights.safetensors", 0), "damaged"),
    "weights missing": (lambda p: (p / "weights.safetensors").unlink(), "damaged"),
    "weights of other shapes": (reshape_weights, r"damaged.*size mismatch for flow\.shift"),
    "a weight missing": (drop_weight, r"damaged.*Missing key.*flow\.shift"),
    "description cut short": (lambda p: truncate(p, "config.json", 0.7), "damaged"),
    "description empty": (lambda p: truncate(p, "config.json", 0), "damaged"),
    "description missing": (
        lambda p: (p / "config.json").unlink(),
        r"not a saved.*no config\.json",
    ),
    "description not text": (lambda p: (p / "config.json").write_bytes(b"\xff\xfe\x00"), "damaged"),
    "description a list": (lambda p: (p / "config.json").write_text("[1]"), "damaged"),
    "description a number": (lambda p: (p / "config.json").write_text("1"), "damaged"),
    "other format": (lambda p: edit(p, format="onnx"), r"not a plmcmc-flow.*says 'onnx', version"),
    "other version": (lambda p: edit(p, version=2), r"not a .*of version 1: .*version 2"),
    "unknown flow": (lambda p: edit(p, flow={"name": "spline", "config": {}}), "damaged.*spline"),
    "unknown parameter": (lambda p: edit(p, flow=of_flow(colour=1)), "damaged.*colour"),
    "wrong parameter": (lambda p: edit(p, flow=of_flow(features=0)), "damaged.*features must be"),
    "no flow": (lambda p: edit(p, flow=None), "damaged"),
    "unknown step": (
        lambda p: edit(
            p, flow={"name": "preprocessed", "steps": [{"name": "blur"}], "flow": of_flow()}
        ),
        "damaged.*blur",
    ),
    "unknown precision": (lambda p: edit(p, dtype="float7"), "damaged.*float7"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_flow_is_refused_by_name(damage, message, saved):
    damage(saved)
    with pytest.raises(FileError, match=rf"(?s)^{saved} is {message}"):
        load(saved)


def test_what_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(FileError, match=f"{tmp_path}/nowhere is not a saved flow"):
        load(tmp_path / "nowhere")


def test_the_undamaged_flow_loads(saved):
    assert isinstance(load(saved), Preprocessed)
