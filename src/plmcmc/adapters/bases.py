"""Latent densities that a user gives: by name, or as a torch distribution."""

from __future__ import annotations

import copy
from typing import Any

from torch import Generator, Tensor
from torch.distributions import Distribution

from plmcmc.adapters.bridge import per_row
from plmcmc.adapters.randomness import seeded_by
from plmcmc.flows.latents import LATENTS
from plmcmc.flows.protocol import Home


class NamedBase:
    """Independent coordinates of a known kind."""

    def __init__(self, name: str, size: int, where: Home) -> None:
        self.latent, self.size, self.where = LATENTS[name], size, where

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density `(rows,)`."""
        return self.latent.log_prob(z)

    def sample(self, rows: int, generator: Generator) -> Tensor:
        """Return latents."""
        return self.latent.sample((rows, self.size), generator, self.where.dtype)


class DistributionBase:
    """A torch distribution: its batch belongs to the row, as its event does."""

    def __init__(self, distribution: Distribution, where: Home | None = None) -> None:
        self.distribution, self.where = without_validation(distribution), where

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density; `-inf` or NaN outside the support."""
        return per_row(self.distribution.log_prob(z), z)

    def sample(self, rows: int, generator: Generator) -> Tensor:
        """Return latents."""
        with seeded_by(generator):
            drawn = self.distribution.sample((rows,))
        return drawn if self.where is None else self.where.bring(drawn)


Base = NamedBase | DistributionBase


def base_of(base: Any, size: int, where: Home) -> Base:
    """Return the density of `size` flat latents that a user means by `base`."""
    if isinstance(base, str) and base in LATENTS:
        return NamedBase(base, size, where)
    wanted = f"{', '.join(map(repr, LATENTS))}, or a torch distribution over {size} latents"
    if not isinstance(base, Distribution):
        raise TypeError(f"base must be {wanted}; got {base!r}")
    shape = tuple(base.batch_shape + base.event_shape)
    if shape != (size,):
        raise TypeError(f"base must be {wanted}; got one of shape {shape}")
    return DistributionBase(base, where)


def without_validation(distribution: Distribution) -> Distribution:
    """Return a copy that answers outside its support, too: proposals may land there."""
    relaxed = copy.copy(distribution)
    relaxed._validate_args = False
    for name in ("base_dist", "_component_distribution", "_mixture_distribution"):
        if isinstance(inner := getattr(relaxed, name, None), Distribution):
            setattr(relaxed, name, without_validation(inner))
    return relaxed
