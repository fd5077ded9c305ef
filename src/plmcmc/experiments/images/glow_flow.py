"""Flows of colour images: trained before by `plmcmc fit-flow`, or a tiny one for a smoke test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from plmcmc.data import DataError
from plmcmc.experiments.cache import trained_once
from plmcmc.experiments.sources import Pixels, embedded_photographs
from plmcmc.experiments.study import Place
from plmcmc.flows import ChannelsFirst, Dequantise, Glow, Preprocessed, Whiten, load
from plmcmc.training import fit_flow

# How each flow of docs/results/images.md was trained: a file of the directory of data, and options.
COMMANDS = {
    "cifar": (
        "cifar10/train.npy",
        "--steps 8 --width 256 --epochs 150 --batch-size 512 --held-out 0.02 --patience 60 "
        "--mirror --noise 0.0039",
    ),
    "faces": (
        "faces64",
        "--first 9500 --levels 4 --steps 8 --width 144 --bits 5 --epochs 110 --batch-size 128 "
        "--held-out 0.02 --patience 60 --mirror --noise 0.008",
    ),
}
# Pictures that each is of (D.1, D.2): height, width, channels.
SHAPES = {"cifar": (32, 32, 3), "faces": (64, 64, 3)}
# Training images of that flow of faces: those after them are new to it.
FACES_SEEN = 9500
TINY, SIDE, LEVELS = "photographs", 4, 256
SCALES, STEPS, WIDTH = 2, 2, 16
PATCHES, EPOCHS = 128, 8


def trained_before(name: str, place: Place) -> Preprocessed:
    """Return the flow `"cifar"` or `"faces"`, from what experiments share or from the data.

    Raises:
        DataError: with the command that trains it, if there is none, or if it is another kind or
            of other pictures.
    """
    places = [place.shared / name]
    places += [] if place.data is None else [place.data / "flows" / name]
    for path in places:
        if path.exists():
            flow: Any = load(path)
            _check(flow, name, path, place)
            place.note(path, f"flows/{name}")
            return flow.to(place.device).eval()
    raise DataError(
        f"expected a flow of images in {' or '.join(map(str, places))}; found none. Train one "
        f"first:\n{command(name, place)}"
    )


def _check(flow: Any, name: str, path: Path, place: Place) -> None:
    """Refuse a flow that is no Glow of integers, or of pictures of another size."""
    whole = isinstance(flow, Preprocessed) and isinstance(flow.flow, Glow)
    if not whole or not isinstance(flow.chain[0], Dequantise):
        raise DataError(f"{path}: expected a Glow of integers, as written by plmcmc fit-flow")
    glow: Any = flow.flow
    channels, *sides = glow.shape
    if (*sides, channels) != SHAPES[name]:
        raise DataError(
            f"{path}: expected a flow of pictures of {in_words(SHAPES[name])}; got one of "
            f"{in_words((*sides, channels))}. Move it away, and train one on pictures of that "
            f"size:\n{command(name, place)}"
        )


def check_pictures(pictures: Pixels, name: str) -> None:
    """Refuse pictures that the flow is not of.

    Raises:
        DataError: if they have another size.
    """
    if pictures.shape[1:] != SHAPES[name]:
        raise DataError(
            f"expected pictures of {in_words(SHAPES[name])}, like those of the flow `{name}`; got "
            f"{in_words(pictures.shape[1:])}: resize the files"
        )


def in_words(shape: Sequence[int]) -> str:
    """Return a shape as people write it.

    Example:
        >>> in_words((32, 32, 3))
        '32 x 32 x 3'
    """
    return " x ".join(map(str, shape))


def command(name: str, place: Place) -> str:
    """Return the command that trains a flow, where it is looked for first, on the run's device."""
    source, options = COMMANDS[name]
    data = Path("DATA" if place.data is None else place.data) / source
    # Faces come as an archive, too.
    data = next(iter(sorted(data.glob("*.zip"))), data)
    words = "" if place.data else "\n(DATA stands for the directory given by --data.)"
    if place.data and not data.exists():
        words += f"\n({data} does not exist either.)"
    if place.device.startswith("cuda"):
        options += " --precision bfloat16"
    else:
        words += "\n(Takes five minutes on an H200, and very long without a GPU.)"
    options += "" if place.device == "cpu" else f" --device {place.device}"
    output = quote(str(place.shared / name))
    return f"plmcmc fit-flow {quote(str(data))} {options} -o {output}{words}"


def tiny(place: Place) -> Preprocessed:
    """Return a small Glow of patches of photographs, trained within seconds and kept."""
    return trained_once(place.shared / TINY, place, _fit)


def _fit(checkpoint: Path) -> Preprocessed:
    del checkpoint
    centre = Whiten(torch.full((1,), 0.5), torch.ones(1))
    glow = Glow((3, SIDE, SIDE), levels=SCALES, steps=STEPS, width=WIDTH, random_state=0)
    flow = Preprocessed([Dequantise(LEVELS), centre, ChannelsFirst()], glow)
    patches = embedded_photographs(PATCHES, SIDE)
    options: dict[str, Any] = {"held_out": 0.0, "weight_decay": 0.0, "noise": 1 / LEVELS}
    options |= {"learning_rate": 3e-3, "random_state": 0, "progress": False}
    return fit_flow(flow, patches, epochs=EPOCHS, batch_size=32, **options).flow
