"""Flows as files: a directory with `config.json` and `weights.safetensors`. Never pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as packed
from torch import Tensor, nn

from plmcmc import disk
from plmcmc.flows.base import seeded
from plmcmc.flows.glow import Glow
from plmcmc.flows.linear import Linear
from plmcmc.flows.lowered import is_lowered
from plmcmc.flows.nice import NICE
from plmcmc.flows.preprocessing import (
    ChannelsFirst,
    Dequantise,
    Flatten,
    Logit,
    Preprocessed,
    Whiten,
)
from plmcmc.flows.protocol import Flow, home
from plmcmc.flows.realnvp import RealNVP
from plmcmc.flows.tabular import TabularFlow

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FORMAT = "plmcmc-flow"
VERSION = 1
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
FLOWS = {kind.name: kind for kind in (Linear, NICE, RealNVP, Glow, TabularFlow)}
STEPS = {kind.name: kind for kind in (Whiten, Logit, Dequantise, Flatten, ChannelsFirst)}


class FileError(ValueError):
    """A directory is not a saved flow, or is a damaged one."""


def save(flow: Flow, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a flow to a new directory, whole or not at all, and return its path.

    `overwrite` replaces a saved flow, and nothing else: other files are never deleted.
    """
    path = free_place(path, "flow", overwrite=overwrite)
    if not isinstance(flow, nn.Module):
        raise TypeError(f"only plmcmc's own flows can be saved; got {type(flow).__name__}")
    if is_lowered(flow):
        raise TypeError("a flow in a lower precision is not saved: save the one it was made from")
    described = {"format": FORMAT, "version": VERSION, "dtype": str(home(flow).dtype)[6:]}
    described["flow"] = describe(flow)
    return write_directory(path, described, flow.state_dict())


def free_place(path: str | Path, kind: str, *, overwrite: bool) -> Path:
    """Return where a model may be written, or say why not."""
    path = Path(path)
    there = disk.standing(path)
    if there.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: choose another directory, or pass overwrite=True")
    if there.exists() and not _holds_only_a_model(there):
        raise FileExistsError(
            f"{path} is not a saved {kind} or holds more: choose another directory"
        )
    return path


def write_directory(
    path: Path, described: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Path:
    """Write a model's two files into a directory, whole or not at all."""
    content = {
        CONFIG: (json.dumps(described, indent=2) + "\n").encode(),
        WEIGHTS: packed({name: tensor.contiguous() for name, tensor in tensors.items()}),
    }
    disk.write_directory(path, content)
    return path


def read_directory(path: Path, form: str, version: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what `write_directory` wrote, if it is of this form and version."""
    path = disk.standing(path)
    if not (path / CONFIG).is_file():
        raise FileError(f"{path} is not a saved {form[7:]}: it has no {CONFIG}")
    described = dict(json.loads((path / CONFIG).read_text()))
    if described.get("format") != form or described.get("version") != version:
        raise FileError(
            f"{path} is not a {form} of version {version}: its {CONFIG} says "
            f"{described.get('format')!r}, version {described.get('version')!r}"
        )
    return described, load_file(path / WEIGHTS)


def load(path: str | Path) -> Flow:
    """Read a flow written by `save`, on the CPU and in eval mode."""
    path = Path(path)
    with damage_named(path):
        described, tensors = read_directory(path, FORMAT, VERSION)
        return rebuild(described["flow"], DTYPES[described["dtype"]], tensors)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while reading a model into a `FileError` that names it."""
    try:
        yield
    except FileError:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, RuntimeError, OSError) as e:
        raise FileError(f"{path} is damaged or was edited: {e}") from e


def rebuild(described: dict[str, Any], dtype: torch.dtype, tensors: Mapping[str, Tensor]) -> Any:
    """Return the flow that `describe` described, with these weights."""
    # Initial weights are drawn, only to be replaced: not from torch's global generator.
    with seeded(0):
        flow = _build(described).to(dtype)
    flow.load_state_dict(tensors)
    return flow.eval()


def _holds_only_a_model(path: Path) -> bool:
    return path.is_dir() and {entry.name for entry in path.iterdir()} <= {CONFIG, WEIGHTS}


def describe(flow: nn.Module) -> dict[str, Any]:
    """Return a flow's name and arguments, as JSON can hold them."""
    if isinstance(flow, Preprocessed):
        steps = [_described(step, STEPS, "steps") for step in flow.chain]
        return {"name": flow.name, "steps": steps, "flow": describe(flow.flow)}
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
