"""A row's holes drawn anew from a mixture of Gaussians, given all else of the row: in one step."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from plmcmc.flows import GaussianMixture
from plmcmc.flows.mixture import seen_precisions
from plmcmc.rng import Streams
from plmcmc.target import GaussianReference


class MixtureDraws:
    """A proposal for a table's chains, in the coordinates of its reference.

    What it owes is the mixture's own density, of the old row over that of the new: the density of
    what is seen is the same for both. A chain that walks under that very mixture accepts every
    draw; others do the oftener, the nearer their density is to the mixture's.

    Args:
        mixture: its members are the last of those that take turns among a row's chains.
        reference: of the rows.
        members: how many take turns in all; those before the mixture's ask one of it each.
    """

    def __init__(
        self, mixture: GaussianMixture, reference: GaussianReference, members: int
    ) -> None:
        self.mixture, self.reference = mixture, reference
        others = torch.arange(members - mixture.members) % mixture.members
        # Whose conditional each place draws from.
        owners = torch.cat([others, torch.arange(mixture.members)]).to(reference.low.device)
        self.places = [(owners == own).nonzero()[:, 0] for own in range(mixture.members)]
        self.members = members
        with torch.no_grad():
            self.conditionals = [
                _Conditional.of(mixture, own, ~reference.free) for own in range(mixture.members)
            ]

    def __call__(self, position: Tensor, streams: Streams) -> tuple[Tensor, Tensor]:
        """Return positions with new holes, and what they owe."""
        rows, free = len(self.reference.low), self.reference.free
        old = self.reference.outward(position)[0]
        noise = streams.normal(position)
        lot = streams.uniform(torch.empty(len(position), dtype=torch.float64, device=old.device))
        old, noise = (part.reshape(rows, -1, self.members, old.shape[1]) for part in (old, noise))
        lot = lot.reshape(rows, -1, self.members)
        new, owed = torch.empty_like(old), torch.empty_like(lot)
        for own, (places, conditional) in enumerate(
            zip(self.places, self.conditionals, strict=True)
        ):
            before, given = (part[:, :, places].flatten(1, 2) for part in (old, noise))
            after = conditional.drawn(before, given, lot[:, :, places].flatten(1))
            after = torch.where(free[:, None], after, before)
            heights = (
                self.mixture.member_log_prob(own, part.flatten(0, 1)) for part in (before, after)
            )
            correction = next(heights) - next(heights)
            new[:, :, places] = after.unflatten(1, (-1, len(places)))
            owed[:, :, places] = correction.reshape(rows, -1, len(places))
        moved = self.reference.inward(new.reshape(position.shape))
        holes = free.repeat_interleave(len(position) // rows, 0)
        return torch.where(holes, moved, position), owed.flatten()


def seen_log_prob(
    mixture: GaussianMixture, reference: GaussianReference, position: Tensor
) -> Tensor:
    """Return the log-density `(rows, places)` of all of rows but their holes, in float64.

    Args:
        mixture: its members take turns among a row's places.
        reference: of the rows.
        position: `(rows * places, columns)`, which says where in their intervals ties are.
    """
    rows = len(reference.low)
    x = reference.outward(position)[0].reshape(rows, -1, mixture.members, position.shape[1])
    found = torch.empty(x.shape[:3], dtype=torch.float64, device=x.device)
    for own in range(mixture.members):
        conditional = _Conditional.of(mixture, own, ~reference.free)
        heights = conditional.heights(x[:, :, own]).double()
        found[:, :, own] = torch.logsumexp(heights, 1)
    seen = (~reference.free).sum(1, keepdim=True)
    return found.flatten(1) - 0.5 * math.log(2 * math.pi) * seen


class _Conditional(NamedTuple):
    """What one mixture's components say of rows' holes, by what is seen.

    Attributes:
        seen: bool `(rows, columns)`.
        mean: of the components.
        root: factors of their covariances.
        covariance: of the components.
        precision: `(rows, components, columns, columns)`, of what is seen alone; 0 elsewhere.
        constant: `(rows, components)`, log-weights with the log-determinants of what is seen.
    """

    seen: Tensor
    mean: Tensor
    root: Tensor
    covariance: Tensor
    precision: Tensor
    constant: Tensor

    @classmethod
    def of(cls, mixture: GaussianMixture, member: int, seen: Tensor) -> _Conditional:
        """Return the conditionals of one member."""
        inward = mixture.inward[member].tril().double()
        eye = torch.eye(mixture.features, dtype=inward.dtype, device=inward.device)
        root = torch.linalg.solve_triangular(inward, eye.expand_as(inward), upper=False)
        covariance = root @ root.mT
        precision, log_det = seen_precisions(covariance, seen)
        constant = mixture.log_weight[member].double() - log_det
        like = mixture.mean
        return cls(
            seen,
            mixture.mean[member],
            root.to(like),
            covariance.to(like),
            precision.to(like),
            constant.to(like),
        )

    def heights(self, x: Tensor) -> Tensor:
        """Return log-densities `(rows, components, places)` of what is seen, less a constant."""
        # Rows, components, columns, places.
        off = x[:, None].mT - self.mean[..., None]
        off = torch.where(self.seen[:, None, :, None], off, 0.0)
        return self.constant[..., None] - 0.5 * (off * (self.precision @ off)).sum(2)

    def drawn(self, x: Tensor, noise: Tensor, lot: Tensor) -> Tensor:
        """Return rows `(rows, places, columns)` drawn given what is seen of `x`.

        A component is picked by its probability given that; a row of it is drawn, and corrected by
        as much as it is off what is seen (Matheron's rule).
        """
        bounds = self.heights(x).double().softmax(1).cumsum(1).mT
        picked = (lot[..., None] > bounds[..., :-1]).sum(2)
        whole = self.mean[picked] + (self.root[picked] @ noise[..., None])[..., 0]
        off = torch.where(self.seen[:, None], x - whole, 0.0)
        row = torch.arange(len(x), device=x.device)[:, None]
        pull = self.precision[row, picked] @ off[..., None]
        return whole + (self.covariance[picked] @ pull)[..., 0]
