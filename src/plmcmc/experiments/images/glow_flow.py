"""Flows of colour images: trained before by `plmcmc fit-flow`, or a tiny one for a smoke test."""

from __future__ import annotations

from typing import Any

import torch

from plmcmc.data import DataError
from plmcmc.experiments.kept import made_once
from plmcmc.experiments.sources import embedded_photographs
from plmcmc.experiments.study import Place
from plmcmc.flows import ChannelsFirst, Dequantise, Glow, Preprocessed, Whiten, load, save
from plmcmc.training import fit_flow

# How each flow of docs/results/images.md was trained; its directory comes last.
COMMANDS = {
    "cifar": "plmcmc fit-flow DATA/cifar10/train.npy --steps 8 --width 256 --epochs 150 "
    "--batch-size 512 --held-out 0.02 --patience 60 --mirror --precision bfloat16 --noise 0.0039 "
    "--device cuda -o",
    "faces": "plmcmc fit-flow DATA/faces64/celeba10k_64.zip --first 9500 --levels 4 --steps 8 "
    "--width 144 --bits 5 --epochs 110 --batch-size 128 --held-out 0.02 --patience 60 --mirror "
    "--noise 0.008 --precision bfloat16 --device cuda -o",
}
# Training images of that flow of faces: those after them are new to it.
FACES_SEEN = 9500
TINY, SIDE, LEVELS = "photographs", 4, 256
PATCHES, EPOCHS = 128, 8


def trained_before(name: str, place: Place) -> Preprocessed:
    """Return the flow `"cifar"` or `"faces"`, from what experiments share or from the data.

    Raises:
        DataError: with the command that trains it, if there is none, or if it is another kind.
    """
    places = [place.shared / name]
    places += [] if place.data is None else [place.data / "flows" / name]
    for path in places:
        if path.exists():
            place.note(path, f"flows/{name}")
            flow: Any = load(path)
            if not _fits(flow):
                raise DataError(f"{path}: expected a Glow of integers, as plmcmc fit-flow writes")
            return flow.to(place.device).eval()
    raise DataError(
        f"expected a flow of images in {' or '.join(map(str, places))}; there is none. "
        f"Train one first (DATA is the directory of data):\n{COMMANDS[name]} {places[0]}"
    )


def _fits(flow: Any) -> bool:
    whole = isinstance(flow, Preprocessed) and isinstance(flow.flow, Glow)
    return whole and isinstance(flow.chain[0], Dequantise)


def tiny(place: Place) -> Preprocessed:
    """Return a small Glow of patches of photographs, trained within seconds and kept."""
    path = place.shared / TINY
    with made_once(path) as wanted:
        if wanted:
            save(_fit(), path)
    flow: Any = load(path)
    return flow.to(place.device).eval()


def _fit() -> Preprocessed:
    centre = Whiten(torch.full((1,), 0.5), torch.ones(1))
    glow = Glow((3, SIDE, SIDE), levels=2, steps=2, width=16, random_state=0)
    flow = Preprocessed([Dequantise(LEVELS), centre, ChannelsFirst()], glow)
    patches = embedded_photographs(PATCHES, SIDE)
    options: dict[str, Any] = {"held_out": 0.0, "weight_decay": 0.0, "noise": 1 / LEVELS}
    options |= {"learning_rate": 3e-3, "random_state": 0, "progress": False}
    return fit_flow(flow, patches, epochs=EPOCHS, batch_size=32, **options).flow
