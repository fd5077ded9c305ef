"""Flows as files: a directory with `config.json` and `weights.safetensors`. Never pickle."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from plmcmc.flows.base import seeded
from plmcmc.flows.linear import Linear
from plmcmc.flows.nice import NICE
from plmcmc.flows.preprocessing import Dequantise, Flatten, Logit, Preprocessed, Whiten
from plmcmc.flows.protocol import Flow, home
from plmcmc.flows.realnvp import RealNVP
from plmcmc.flows.tabular import TabularFlow

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FORMAT = "plmcmc-flow"
VERSION = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
FLOWS = {kind.name: kind for kind in (Linear, NICE, RealNVP, TabularFlow)}
STEPS = {kind.name: kind for kind in (Whiten, Logit, Dequantise, Flatten)}


class FileError(ValueError):
    """A directory is not a saved flow, or is a damaged one."""


def save(flow: Flow, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a flow to a new directory, whole or not at all, and return its path.

    `overwrite` replaces a saved flow, and nothing else: other files are never deleted.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: choose another directory, or pass overwrite=True")
    if path.exists() and not _holds_only_a_flow(path):
        raise FileExistsError(f"{path} is not a saved flow or holds more: choose another directory")
    if not isinstance(flow, nn.Module):
        raise TypeError(f"only plmcmc's own flows can be saved; got {type(flow).__name__}")
    described = {"format": FORMAT, "version": VERSION, "dtype": str(home(flow).dtype)[6:]}
    described["flow"] = _describe(flow)
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        (staging / CONFIG).write_text(json.dumps(described, indent=2) + "\n")
        tensors = {name: tensor.contiguous() for name, tensor in flow.state_dict().items()}
        save_file(tensors, staging / WEIGHTS)
        staging.chmod(0o755)
        _swap(staging, path)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return path


def load(path: str | Path) -> Flow:
    """Read a flow written by `save`, on the CPU and in eval mode."""
    path = Path(path)
    if not (path / CONFIG).is_file():
        raise FileError(f"{path} is not a saved flow: it has no {CONFIG}")
    try:
        described = dict(json.loads((path / CONFIG).read_text()))
        if described.get("format") != FORMAT or described.get("version") != VERSION:
            raise FileError(
                f"{path} is not a {FORMAT} of version {VERSION}: its {CONFIG} says "
                f"{described.get('format')!r}, version {described.get('version')!r}"
            )
        tensors = load_file(path / WEIGHTS)
        # Initial weights are drawn, only to be replaced: not from torch's global generator.
        with seeded(0):
            flow = _build(described["flow"]).to(DTYPES[described["dtype"]])
        flow.load_state_dict(tensors)
    except FileError:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, RuntimeError, OSError) as e:
        raise FileError(f"{path} is damaged or was edited: {e}") from e
    return flow.eval()


def _swap(staging: Path, path: Path) -> None:
    """Put `staging` where `path` is; the old directory goes only once the new one stands."""
    old = staging.with_name(staging.name + "-old")
    if path.exists():
        os.replace(path, old)
    try:
        os.replace(staging, path)
    except BaseException:
        if old.exists():
            os.replace(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _holds_only_a_flow(path: Path) -> bool:
    return path.is_dir() and {entry.name for entry in path.iterdir()} <= {CONFIG, WEIGHTS}


def _describe(flow: nn.Module) -> dict[str, Any]:
    if isinstance(flow, Preprocessed):
        steps = [_described(step, STEPS, "steps") for step in flow.chain]
        return {"name": flow.name, "steps": steps, "flow": _describe(flow.flow)}
    return _described(flow, FLOWS, "flows")


def _described(part: Any, known: Mapping[str, type], kinds: str) -> dict[str, Any]:
    # Not isinstance: a subclass would come back as what it was derived from.
    if type(part) not in known.values():
        raise TypeError(
            f"only plmcmc's own {kinds} ({', '.join(known)}) can be saved; got "
            f"{type(part).__name__}: save that one as its own library does"
        )
    return {"name": part.name, "config": part.config}


def _build(described: dict[str, Any]) -> Any:
    if described["name"] == Preprocessed.name:
        steps = [STEPS[step["name"]].of_config(**step["config"]) for step in described["steps"]]
        return Preprocessed(steps, _build(described["flow"]))
    return FLOWS[described["name"]](**described["config"])
