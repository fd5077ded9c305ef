"""Scouts: where a row may have modes that its chains have not found."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from plmcmc.adaptation.climb import SETTLING_STEPS, climb, settled
from plmcmc.adaptation.metric import Whitened, metrics, usable_frame
from plmcmc.kernels import Holes, Hop
from plmcmc.kernels.base import acceptable
from plmcmc.target import ConditionalTarget

# Of a row, at least: a mode of a tenth is missed by three rows in a hundred.
SCOUTS = 32
# Scouts start near the row already.
CLIMB_STEPS = 20
# Nats by which a mode's mass may fall behind the best one's; the metric only guesses at it.
BEHIND = 15.0


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
        frame, usable = usable_frame(precision, centre, own)
        top = settled(target, top, frame)
        mass = acceptable(top.log_density) + frame.log_volume
        parts = (frame.root, frame.inverse, torch.where(usable, mass, -torch.inf))
        by_row = (part.double().unflatten(0, (-1, chains)) for part in parts)
        found.append((holes.gather(top.position).double(), *by_row))
        spent += 3 * (CLIMB_STEPS + 1 + SETTLING_STEPS) + holes.most
    # Of many chains, not all are scouts.
    parts = (torch.cat(part, 1)[:, :SCOUTS] for part in zip(*found, strict=True))
    return _between(holes, *parts), spent


def _between(holes: Holes, centre: Tensor, root: Tensor, inverse: Tensor, mass: Tensor) -> Hop:
    """Return hops between the modes of each row; ones that hardly count give way to the best."""
    best, place = mass.max(1, keepdim=True)
    every = torch.arange(mass.shape[1], device=mass.device)
    chosen = torch.where(mass >= best - BEHIND, every, place)
    row = torch.arange(len(mass), device=mass.device)[:, None]
    return Hop(holes, centre[row, chosen], root[row, chosen], inverse[row, chosen])
