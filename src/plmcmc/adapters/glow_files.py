"""Glow checkpoints of two public projects, read into our Glow.

y0ast/Glow-PyTorch (CIFAR-10) and chaiyujin/glow-pytorch (CelebA) keep half-way latents nowhere:
they draw them anew when decoding, and cannot undo their own encoding. Ours keeps them. Their files
hold tensors alone; torch reads them with `weights_only=True`, which runs no code.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from plmcmc.flows import (
    ChannelsFirst,
    Dequantise,
    FileError,
    Glow,
    Preprocessed,
    Step,
    Whiten,
)
from plmcmc.flows.glow_layers import GAIN, Mixing, Norm, ZeroConvolution
from plmcmc.flows.sizes import numbers

Weights = Mapping[str, Tensor]
# Two triangular factors of ours may stand for one matrix of theirs.
MORE = 3


class Names(NamedTuple):
    """How a project spells what its files hold.

    Attributes:
        network: of a coupling's network.
        convolution: of the convolution within a layer.
        top: of the layer whose bias is the deepest latents' prior.
        lower, upper: of the triangular factors of mixed channels.
    """

    network: str
    convolution: str
    top: str
    lower: str
    upper: str


Y0AST = Names("block", ".conv", "learn_top_fn", "lower", "upper")
CHAIYUJIN = Names("f", "", "learn_top", "l", "u")


def load_glow(path: str | Path) -> Preprocessed:
    """Read a checkpoint of y0ast/Glow-PyTorch or of chaiyujin/glow-pytorch.

    Args:
        path: their `.pt`, `.pth` or `.pkg` file.

    Returns:
        A flow of images `(height, width, channels)` of integers 0 to 255, prepared as in that
        project (for chaiyujin's in BGR order if images were read so); `.flow` is the bare `Glow`.
    """
    path = Path(path)
    _refuse_compressed(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as problem:
        # torch raises many kinds, by how the file is damaged or what it holds beside tensors.
        reason = str(problem).splitlines()[0]
        raise FileError(f"{path} cannot be read as a file of plain tensors: {reason}") from problem
    weights, names = _recognised(path, found)
    try:
        glow = _built(weights, names)
        _fill(glow, weights, names)
    except (LookupError, ValueError, RuntimeError) as problem:
        raise FileError(f"{path} is incomplete: {problem}") from problem
    # The one project learned integers spread over their bins, the other x / 255 as it is.
    chaiyujin: list[Step] = [Whiten(torch.zeros(1), torch.full((1,), 255.0))]
    y0ast: list[Step] = [Dequantise(256), Whiten(torch.full((1,), 0.5), torch.ones(1))]
    steps = y0ast if names is Y0AST else chaiyujin
    return Preprocessed([*steps, ChannelsFirst()], glow).eval()


def _refuse_compressed(path: Path) -> None:
    """Refuse an archive that is larger than it looks; torch's own are as large as their tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            packed = [e for e in archive.infolist() if e.compress_type != zipfile.ZIP_STORED]
    except (zipfile.BadZipFile, ValueError, RuntimeError):
        # An older form of torch's, or none: torch will say.
        return
    if packed:
        raise FileError(f"{path}: {packed[0].filename!r} in it is compressed: save it with torch")


def _refuse_larger_than(path: Path, weights: Weights) -> None:
    """Refuse tensors that claim more numbers than the file has room for."""
    claimed = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    if claimed > path.stat().st_size:
        raise FileError(
            f"{path} is damaged: its tensors claim {claimed} bytes, more than the file has"
        )


def _recognised(path: Path, found: object) -> tuple[Weights, Names]:
    """Return the weights, without what training kept beside them, and whose they are."""
    for key in ("graph", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    weights = {
        str(key).removeprefix("module."): value
        for key, value in (found.items() if isinstance(found, Mapping) else ())
        if isinstance(value, Tensor)
    }
    for names in (Y0AST, CHAIYUJIN):
        if f"flow.layers.1.{names.network}.0{names.convolution}.weight" in weights:
            _refuse_larger_than(path, weights)
            _refuse_what_is_not_there(path, weights)
            return weights, names
    raise FileError(
        f"{path} is not a checkpoint of y0ast/Glow-PyTorch or chaiyujin/glow-pytorch: expected a "
        "tensor flow.layers.1.block.0.conv.weight or flow.layers.1.f.0.weight"
    )


def _refuse_what_is_not_there(path: Path, weights: Weights) -> None:
    if any(key.startswith("project_ycond") for key in weights):
        raise FileError(f"{path} is class-conditional: only unconditional flows can be read")
    if not any(key.startswith("flow.layers.1.invconv.") for key in weights):
        raise FileError(
            f"{path} shuffles or reverses channels without recording the order: only flows with "
            "invertible 1x1 convolutions can be read"
        )


def _built(weights: Weights, names: Names) -> Glow:
    """Return a Glow of the size that the weights tell."""
    found = re.compile(r"flow\.layers\.(\d+)\.(actnorm\.bias|conv\.)")
    layers = [match for key in weights if (match := found.match(key))]
    steps = sorted({int(m[1]) for m in layers if m[2] == "actnorm.bias"})
    levels = 1 + len({int(m[1]) for m in layers if m[2] == "conv."})
    first = weights[f"flow.layers.1.{names.network}.0{names.convolution}.weight"]
    last = weights[f"flow.layers.1.{names.network}.4{names.convolution}.weight"]
    channels = weights["flow.layers.1.actnorm.bias"].numel() // 4
    if len(steps) % levels:
        raise ValueError(f"its {levels} levels cannot share {len(steps)} steps equally")
    config = {
        "shape": [channels, *(2**levels * side for side in weights["prior_h"].shape[2:])],
        "levels": levels,
        "steps": len(steps) // levels,
        "width": len(first),
        "coupling": "affine" if len(last) == 4 * channels else "additive",
    }
    there = sum(tensor.numel() for tensor in weights.values())
    if numbers(Glow.name, config) > MORE * there:
        raise ValueError(f"its first layer implies a larger flow than its {there} numbers")
    return Glow(**config, activation="relu", random_state=0)


@torch.no_grad()
def _fill(glow: Glow, weights: Weights, names: Names) -> None:
    """Copy the weights where they belong; layers of a level: squeeze, steps, split."""
    glow.met.fill_(True)
    place = 0
    for level in glow.chain:
        for step in level.chain:
            place += 1
            own, network = f"flow.layers.{place}.", f"flow.layers.{place}.{names.network}."
            _copy_norm(step.mixing.norm, weights, f"{own}actnorm.")
            _copy_mixing(step.mixing, weights, f"{own}invconv.", names)
            coupling = step.coupling
            for number, part in ((0, coupling.first), (2, coupling.second)):
                part.weight.copy_(weights[f"{network}{number}{names.convolution}.weight"])
                _copy_norm(part.norm, weights, f"{network}{number}.actnorm.")
            _copy_zero(coupling.last, weights, f"{network}4", names, crossed=coupling.affine)
        place += 1
        if not level.last:
            _copy_zero(level.predict, weights, f"flow.layers.{place}.conv", names, crossed=True)
        elif f"{names.top}.logs" in weights:
            # A convolution of zeros: nothing is left of it but its bias.
            scale = (GAIN * weights[f"{names.top}.logs"].flatten()).exp()
            mean, log = (weights[f"{names.top}{names.convolution}.bias"] * scale).chunk(2)
            level.mean.copy_(mean[:, None, None])
            level.log_deviation.copy_(log[:, None, None])
        place += 1


def _copy_norm(norm: Norm, weights: Weights, prefix: str) -> None:
    norm.bias.copy_(weights[f"{prefix}bias"].flatten())
    norm.log_scale.copy_(weights[f"{prefix}logs"].flatten())


def _copy_mixing(mixing: Mixing, weights: Weights, prefix: str, names: Names) -> None:
    if f"{prefix}weight" in weights:
        mixing.take(weights[f"{prefix}weight"])
        return
    mixing.permutation.copy_(weights[f"{prefix}p"].argmax(1))
    mixing.sign.copy_(weights[f"{prefix}sign_s"])
    mixing.lower.copy_(weights[f"{prefix}{names.lower}"].tril(-1))
    mixing.upper.copy_(weights[f"{prefix}{names.upper}"].triu(1))
    mixing.log_diagonal.copy_(weights[f"{prefix}log_s"])


def _copy_zero(
    layer: ZeroConvolution, weights: Weights, prefix: str, names: Names, *, crossed: bool
) -> None:
    """Copy a layer; where shifts and scales take turns, put shifts first."""
    parts = (
        weights[f"{prefix}{names.convolution}.weight"],
        weights[f"{prefix}{names.convolution}.bias"],
        weights[f"{prefix}.logs"].flatten(),
    )
    for own, part in zip((layer.weight, layer.bias, layer.log_scale), parts, strict=True):
        own.copy_(torch.cat([part[0::2], part[1::2]]) if crossed else part)
