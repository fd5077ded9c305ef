"""What images are completed in the two experiments, and from where the paper's chains begin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from plmcmc.chains import FromObserved, Start, Unconditional
from plmcmc.experiments.images.glow_flow import FACES_SEEN, SIDE, check_pictures
from plmcmc.experiments.sources import Pixels, cifar, embedded_photographs, faces
from plmcmc.experiments.study import Place
from plmcmc.flows import full_precision, sample

SEED = 0
# Temperature of images that a flow draws to be completed and shown.
DRAWN_AT = 0.7


class Task(NamedTuple):
    """What the two experiments differ in.

    Attributes:
        flow: name of the flow's directory.
        absolute: whether the paper's chains walk in the latents as they leave Glow's levels.
        start: where the paper's chains begin.
    """

    flow: str
    absolute: bool
    start: Start

    def images(self, count: int, levels: int, place: Place) -> Pixels:
        """Return real images that the flow was not trained on, as so many integers.

        Raises:
            DataError: if they have not the flow's size.
        """
        new = cifar(place, count) if self.flow == "cifar" else faces(place, FACES_SEEN, count)
        check_pictures(new, self.flow)
        return new // (256 // levels)


TASKS = {
    "cifar": Task("cifar", True, FromObserved()),
    # As sampled, the observed half not put in: the chain must find it.
    "celeba": Task("faces", False, Unconditional(0.5, projected=False)),
}


def patches(count: int) -> Pixels:
    """Return images of a smoke test, others than its flow was trained on."""
    return embedded_photographs(count, SIDE, seed=SEED + 1)


def with_drawn(real: Pixels, flow: Any, count: int) -> Pixels:
    """Return real images, and after them some that the flow draws, as integers."""
    drawn = samples(flow, max(1, count), DRAWN_AT)[:count]
    return np.concatenate([real, drawn.round().clip(0, flow.chain[0].levels - 1)])


@torch.no_grad()
def samples(flow: Any, count: int, temperature: float) -> Pixels:
    """Return unconditioned samples."""
    source = torch.Generator(next(flow.parameters()).device).manual_seed(SEED)
    with full_precision():
        return sample(flow, count, source, temperature=temperature).cpu().numpy()
