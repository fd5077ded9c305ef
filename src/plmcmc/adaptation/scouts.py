"""Scouts: where a row may have modes that its chains have not found."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from plmcmc.adaptation.climb import SETTLING_STEPS, climb, settled
from plmcmc.adaptation.metric import Whitened, metrics, usable_frame
from plmcmc.kernels import Holes, Hop
from plmcmc.target import ConditionalTarget

# Of a row: a mode of a tenth is missed by three rows in a hundred. As many climb at a time as there
# are chains, and no more often than this.
SCOUTS, ROUNDS = 32, 8
# Scouts start near the row already.
CLIMB_STEPS = 20


def scouted(
    target: ConditionalTarget, places: Iterable[Tensor], holes: Holes, whitened: Whitened
) -> tuple[Hop, int]:
    """Return hops between the modes that climbs from some full rows end in, and what they cost.

    Args:
        target: the conditional density.
        places: batches of full rows in data space, as many to a row as it has chains.
        holes: where rows move.
        whitened: from positions to latents of unit Fisher information, for the modes' widths.
    """
    found, spent = [], 0
    for y in places:
        top = climb(target, y, steps=CLIMB_STEPS)
        chains = len(y) // len(holes.places)
        own = Holes(*(p.repeat_interleave(chains, 0) for p in (holes.places, holes.present)))
        precision = metrics(whitened, top.position, holes)
        centre = holes.gather(top.position).flatten(0, 1)
        # Metrics that cannot be used make hops that are refused, no more.
        frame, _ = usable_frame(precision, centre, own)
        top = settled(target, top, frame)
        parts = (part.double().unflatten(0, (-1, chains)) for part in (frame.root, frame.inverse))
        found.append((holes.gather(top.position).double(), *parts))
        spent += 3 * (CLIMB_STEPS + 1 + SETTLING_STEPS) + holes.most
    # Of many chains, not all are scouts.
    return Hop(holes, *(torch.cat(part, 1)[:, :SCOUTS] for part in zip(*found, strict=True))), spent
