"""Flows as files: what a flow is in `config.json`, its numbers in safetensors. Never pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from plmcmc.flows.base import seeded
from plmcmc.flows.glow import Glow
from plmcmc.flows.linear import Linear
from plmcmc.flows.mixture import GaussianMixture
from plmcmc.flows.nice import NICE
from plmcmc.flows.passes.lowered import is_lowered
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
from plmcmc.flows.sizes import layers, numbers
from plmcmc.flows.tabular import TabularFlow
from plmcmc.storage.stored import (
    WEIGHTS,
    check_same,
    damage_named,
    free_place,
    read_model,
    write_model,
)
from plmcmc.storage.strict_json import Fields, shown

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FORMAT = "plmcmc-flow"
VERSION = 2
FLOWS = {kind.name: kind for kind in (Linear, NICE, RealNVP, Glow, TabularFlow, GaussianMixture)}
STEPS = {kind.name: kind for kind in (Whiten, Logit, Dequantise, Flatten, ChannelsFirst)}
_COUPLED = {"features": int, "latent": str, "couplings": int, "depth": int, "width": int}
ARGUMENTS: dict[str, dict[str, type]] = {
    Linear.name: {"features": int, "latent": str},
    NICE.name: _COUPLED | {"activation": str},
    RealNVP.name: _COUPLED | {"activation": str, "bound": float},
    TabularFlow.name: _COUPLED | {"members": int},
    GaussianMixture.name: {"features": int, "members": int, "components": int},
    Glow.name: {
        "shape": list,
        "levels": int,
        "steps": int,
        "width": int,
        "coupling": str,
        "activation": str,
        "spare_memory": bool,
    },
    Whiten.name: {"shape": list},
    Logit.name: {"low": float, "high": float, "margin": float},
    Dequantise.name: {"levels": int},
    Flatten.name: {"shape": list},
    ChannelsFirst.name: {},
}
# More of them make no sense, and would take long to build.
MOST_STEPS, MOST_NESTED, MOST_AXES = 64, 8, 8


def save(flow: Flow, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a flow to a new directory, completely or not at all, and return its path.

    If the name ends in `.zip`, a single file is written instead. `overwrite` only replaces a saved
    flow: other files are never deleted.
    """
    path = free_place(path, "flow", overwrite=overwrite)
    if not isinstance(flow, nn.Module):
        inner = " (save its .flow)" if hasattr(flow, "flow") else ""
        raise TypeError(f"only plmcmc's own flows can be saved; got {type(flow).__name__}{inner}")
    if is_lowered(flow):
        raise TypeError(
            "a flow in a lower precision cannot be saved: save the one it was made from"
        )
    described = {"format": FORMAT, "version": VERSION, "dtype": str(home(flow).dtype)[6:]}
    described["flow"] = describe(flow)
    return write_model(path, described, flow.state_dict())


def load(path: str | Path) -> Flow:
    """Read a flow written by `save`, on the CPU and in eval mode.

    Raises:
        FileError: if the file cannot be read, saying what is wrong with it.
    """
    path = Path(path)
    with damage_named(path):
        described, tensors = read_model(path, FORMAT, VERSION)
        dtype = DTYPES[described.take("dtype", str, tuple(DTYPES))]
        return rebuild(described.inside("flow"), dtype, tensors)


def rebuild(
    described: Fields, dtype: torch.dtype, tensors: Mapping[str, Tensor], prefix: str = ""
) -> Any:
    """Return the flow that `describe` described, with these weights.

    Args:
        described: what is said of it.
        dtype: its precision.
        tensors: all that it has, and nothing else.
        prefix: what their names begin with in the file, for messages.
    """
    plan = _planned(described)
    _check_size(described, plan, tensors)
    # Initial weights are drawn, only to be replaced: not from torch's global generator.
    with seeded(0):
        flow = plan.build().to(dtype)
    own = flow.state_dict()
    for name in own.keys() | tensors.keys():
        if name not in own or name not in tensors:
            lacks = "is missing" if name in own else "is unexpected"
            raise ValueError(f"{WEIGHTS}: {shown(prefix + name)} {lacks}")
        check_same(tensors[name], own[name], f"{WEIGHTS}, {prefix}{name}")
        if not bool(tensors[name].isfinite().all()):
            raise ValueError(f"{WEIGHTS}, {prefix}{name}: expected finite numbers")
    flow.load_state_dict(tensors)
    return flow.eval()


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


class _Plan(NamedTuple):
    """A flow that is described, and not built yet: steps, the outermost first, then a flow."""

    name: str
    config: dict[str, Any]
    steps: list[list[tuple[str, dict[str, Any]]]]

    def build(self) -> Any:
        """Return the flow, with initial weights."""
        flow: Any = FLOWS[self.name](**self.config)
        for chain in reversed(self.steps):
            parts = [STEPS[name].of_config(**config) for name, config in chain]
            flow = Preprocessed(parts, flow)
        return flow

    @property
    def numbers(self) -> int:
        """How many numbers its tensors hold."""
        whitened = (own["shape"] for chain in self.steps for name, own in chain if name == "whiten")
        return numbers(self.name, self.config) + sum(2 * math.prod(shape) for shape in whitened)


def _planned(described: Fields) -> _Plan:
    """Return what a description asks for; every name and type of it is looked at."""
    steps = []
    while described.take("name", str) == Preprocessed.name:
        described.only(("name", "steps", "flow"))
        chain = described.each("steps")
        if len(chain) > MOST_STEPS or len(steps) >= MOST_NESTED:
            raise ValueError(f"{described.where}: too many steps")
        steps.append([_named(step, STEPS) for step in chain])
        described = described.inside("flow")
    return _Plan(*_named(described, FLOWS), steps)


def _named(described: Fields, known: Mapping[str, type]) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a flow or a step."""
    described.only(("name", "config"))
    name, config = described.take("name", str, tuple(known)), described.inside("config")
    config.only(ARGUMENTS[name])
    found: dict[str, Any] = {own: config.take(own, kind) for own, kind in ARGUMENTS[name].items()}
    shape = found.get("shape", [])
    if len(shape) > MOST_AXES or not all(type(size) is int and size > 0 for size in shape):
        raise ValueError(f"{config.where}.shape: expected a few sizes; got {shown(shape)}")
    return name, found


def _check_size(described: Fields, plan: _Plan, tensors: Mapping[str, Tensor]) -> None:
    """Refuse a flow of another size than the weights that are there, before it is built."""
    if layers(plan.config) > len(tensors):
        raise ValueError(
            f"{described.where}: it describes at least {layers(plan.config)} layers, and "
            f"{WEIGHTS} has {len(tensors)} tensors"
        )
    there = sum(tensor.numel() for tensor in tensors.values())
    if plan.numbers != there:
        raise ValueError(
            f"{described.where}: it describes a flow of {plan.numbers} numbers, and {WEIGHTS} has "
            f"{there}"
        )
