"""Scouts: where a row may have modes that its chains have not found."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from plmcmc.adaptation.climb import climb
from plmcmc.adaptation.metric import Whitened, metrics, usable_frame
from plmcmc.data import Incomplete
from plmcmc.kernels import Holes, Hop
from plmcmc.kernels.base import acceptable
from plmcmc.target import ConditionalTarget, Warp

# Of a row, at least: a mode of a tenth is missed by three rows in a hundred.
SCOUTS = 32
# Scouts start near the row already.
CLIMB_STEPS = 30
# Nats by which a mode's mass may fall behind the best one's; the metric only guesses at it.
BEHIND = 15.0


def alike(samples: Tensor, data: Incomplete, warp: Warp, count: int) -> Tensor:
    """Return the numbers of the samples most like what is seen in each row, `(rows, count)`.

    Where rows like this one lie, its missing entries are likely to have their modes.
    """
    places, values = (warp.inward(part).flatten(1).nan_to_num() for part in (samples, data.values))
    seen = data.observed.flatten(1).to(places.dtype)
    # Squared distances, but for what is the same for all samples.
    distance = seen @ places.square().mT - 2 * (values * seen) @ places.mT
    return distance.topk(count, largest=False).indices


def scouted(
    target: ConditionalTarget, starts: Iterable[Tensor], holes: Holes, whitened: Whitened
) -> tuple[Hop, int]:
    """Return hops between the modes that climbs from some full rows end in, and what they cost.

    Args:
        target: the conditional density.
        starts: batches of full rows in data space, as many to a row as it has chains.
        holes: where rows move.
        whitened: from positions to latents of unit Fisher information, for the modes' widths.
    """
    rows = len(holes.places)
    centres, precisions, heights, spent = [], [], [], 0
    for y in starts:
        top = climb(target, y, steps=CLIMB_STEPS)
        centres.append(holes.gather(top.position).double())
        precisions.append(metrics(whitened, top.position, holes).unflatten(0, (rows, -1)))
        heights.append(top.log_density.reshape(rows, -1))
        spent += 3 * (CLIMB_STEPS + 1) + holes.most
    centre, precision, height = (torch.cat(p, 1) for p in (centres, precisions, heights))
    return _between(centre, precision, height, holes), spent


def _between(centre: Tensor, precision: Tensor, height: Tensor, holes: Holes) -> Hop:
    """Return hops between the modes of each row; ones that hardly count give way to the best."""
    rows, count = height.shape
    of_modes = Holes(*(p.repeat_interleave(count, 0) for p in (holes.places, holes.present)))
    frame, usable = usable_frame(precision.flatten(0, 1), centre.flatten(0, 1), of_modes)
    mass = acceptable(height) + frame.log_volume.reshape(rows, count)
    mass = torch.where(usable.reshape(rows, count), mass, -torch.inf)
    best, place = mass.max(1, keepdim=True)
    chosen = torch.where(mass >= best - BEHIND, torch.arange(count, device=mass.device), place)
    row = torch.arange(rows, device=mass.device)[:, None]
    parts = (
        p.unflatten(0, (rows, count))[row, chosen]
        for p in (frame.centre, frame.root, frame.inverse)
    )
    return Hop(holes, *parts)
