"""Flows as files: a directory with `config.json` and `weights.safetensors`. Never pickle."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from plmcmc.flows.linear import Linear
from plmcmc.flows.nice import NICE
from plmcmc.flows.preprocessing import Dequantise, Flatten, Logit, Preprocessed, Whiten
from plmcmc.flows.protocol import Flow, home
from plmcmc.flows.realnvp import RealNVP

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FORMAT = "plmcmc-flow"
VERSION = 1
FLOWS = {kind.name: kind for kind in (Linear, NICE, RealNVP)}
STEPS: dict[str, Any] = {
    "whiten": Whiten.of_config,
    "logit": Logit,
    "dequantise": Dequantise,
    "flatten": Flatten,
}


class FileError(ValueError):
    """A directory is not a saved flow, or is a damaged one."""


def save(flow: Flow, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a flow to a new directory, whole or not at all, and return its path."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: choose another directory, or pass overwrite=True")
    if not isinstance(flow, nn.Module):
        raise TypeError(f"only plmcmc's own flows can be saved; got {type(flow).__name__}")
    described = {"format": FORMAT, "version": VERSION, "dtype": str(home(flow).dtype)[6:]}
    described["flow"] = _describe(flow)
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        (staging / "config.json").write_text(json.dumps(described, indent=2) + "\n")
        tensors = {name: tensor.contiguous() for name, tensor in flow.state_dict().items()}
        save_file(tensors, staging / "weights.safetensors")
        staging.chmod(0o755)
        _swap(staging, path)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return path


def load(path: str | Path) -> Flow:
    """Read a flow written by `save`, on the CPU and in eval mode."""
    path = Path(path)
    if not (path / "config.json").is_file():
        raise FileError(f"{path} is not a saved flow: it has no config.json")
    try:
        described = json.loads((path / "config.json").read_text())
        if described.get("format") != FORMAT or described.get("version") != VERSION:
            raise FileError(
                f"{path} is not a {FORMAT} of version {VERSION}: its config.json says "
                f"{described.get('format')!r}, version {described.get('version')!r}"
            )
        tensors = load_file(path / "weights.safetensors")
        flow = _build(described["flow"]).to(DTYPES[described["dtype"]])
        flow.load_state_dict(tensors)
    except (json.JSONDecodeError, SafetensorError, KeyError, TypeError, RuntimeError, OSError) as e:
        raise FileError(f"{path} is damaged or was edited: {e}") from e
    return flow.eval()


def _swap(staging: Path, path: Path) -> None:
    """Put `staging` where `path` is; the old directory goes only once the new one stands."""
    old = staging.with_name(staging.name + "-old")
    if path.exists():
        os.replace(path, old)
    os.replace(staging, path)
    shutil.rmtree(old, ignore_errors=True)


def _describe(flow: nn.Module) -> dict[str, Any]:
    if isinstance(flow, Preprocessed):
        steps = [{"name": s.name, "config": s.config} for s in flow.chain]
        return {"name": flow.name, "steps": steps, "flow": _describe(flow.flow)}
    for name, kind in FLOWS.items():
        if isinstance(flow, kind):
            return {"name": name, "config": flow.config}
    raise TypeError(
        f"only plmcmc's own flows ({', '.join(FLOWS)}, preprocessed) can be saved; got "
        f"{type(flow).__name__}: save that one as its own library does"
    )


def _build(described: dict[str, Any]) -> Any:
    if described["name"] == Preprocessed.name:
        steps = [STEPS[step["name"]](**step["config"]) for step in described["steps"]]
        return Preprocessed(steps, _build(described["flow"]))
    return FLOWS[described["name"]](**described["config"])
