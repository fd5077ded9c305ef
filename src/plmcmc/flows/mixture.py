"""Mixtures of Gaussians as flows: latents are the data themselves, and their density is mixed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from plmcmc.flows.base import Configured
from plmcmc.flows.passes.small_products import even_product
from plmcmc.flows.protocol import home


class Components(NamedTuple):
    """Gaussians of one mixture, in float64.

    Attributes:
        weight: `(components,)`, which add up to one.
        mean: `(components, columns)`.
        covariance: `(components, columns, columns)`.
    """

    weight: Tensor
    mean: Tensor
    covariance: Tensor


def seen_precisions(covariance: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inverses of covariances of what is seen alone, and half of their log-determinants.

    Args:
        covariance: `(components, columns, columns)`.
        seen: bool `(patterns, columns)`.

    Returns:
        `(patterns, components, columns, columns)`, 0 at holes, and `(patterns, components)`.
    """
    both = (seen[:, :, None] & seen[:, None])[:, None]
    # Bordered by ones at the holes, so that all patterns are of one size.
    eye = torch.eye(seen.shape[1], dtype=covariance.dtype, device=covariance.device)
    factor = torch.linalg.cholesky(torch.where(both, covariance, eye))
    precision = torch.where(both, torch.cholesky_inverse(factor), 0.0)
    return precision, factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class GaussianMixture(Configured):
    """Several independent mixtures of Gaussians.

    The rows of a batch are assigned to members in turn: the first row to the first member, and so
    on; the number of rows must be a multiple of the number of members.

    Args:
        features: number of columns.
        members: number of mixtures.
        components: number of Gaussians in each mixture.

    Example:
        >>> two = Components(torch.tensor([0.5, 0.5]), torch.eye(2), torch.eye(2).repeat(2, 1, 1))
        >>> flow = GaussianMixture.of([two])
        >>> round(flow.latent_log_prob(torch.zeros(1, 2)).item(), 4)
        -2.3379
    """

    name = "mixture"

    def __init__(self, features: int, *, members: int = 1, components: int = 1) -> None:
        super().__init__()
        self.config = {"features": features, "members": members, "components": components}
        for name, number in self.config.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1; got {number}")
        self.features = features
        self.members, self.components = members, components
        # No parameters: they are found by expectation-maximisation, not by slopes.
        self.log_weight: Tensor
        self.mean: Tensor
        self.inward: Tensor
        self.register_buffer("log_weight", torch.full((members, components), -math.log(components)))
        self.register_buffer("mean", torch.zeros(members, components, features))
        # Lower triangular: what takes each Gaussian to a standard normal.
        self.register_buffer("inward", torch.eye(features).repeat(members, components, 1, 1))

    @classmethod
    def of(cls, members: list[Components]) -> GaussianMixture:
        """Return a flow of mixtures that all have the same number of components, in float32."""
        weight, mean, covariance = (torch.stack(parts) for parts in zip(*members, strict=True))
        flow = cls(mean.shape[2], members=len(members), components=mean.shape[1])
        root = torch.linalg.cholesky(covariance)
        eye = torch.eye(mean.shape[2], dtype=root.dtype).expand_as(root)
        flow.log_weight.copy_(weight.log())
        flow.mean.copy_(mean)
        flow.inward.copy_(torch.linalg.solve_triangular(root, eye, upper=False))
        return flow

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows, and zeros."""
        return x, x.new_zeros(len(x), dtype=torch.float64)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows, and zeros."""
        return z, z.new_zeros(len(z), dtype=torch.float64)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return each row's log-density under its member, in float64."""
        if len(z) % self.members:
            raise ValueError(f"{len(z)} rows cannot be shared equally among {self.members} members")
        x = z.reshape(-1, self.members, self.features).permute(1, 2, 0)
        return self._heights(slice(None), x).mT.reshape(-1)

    def member_log_prob(self, member: int, x: Tensor) -> Tensor:
        """Return the log-density `(rows,)` of rows under one member, in float64."""
        return self._heights(slice(member, member + 1), x.mT[None])[0]

    def _heights(self, own: slice, x: Tensor) -> Tensor:
        """Return log-densities `(members, rows)` of `(members, columns, rows)` under some."""
        inward = self.inward[own].tril()
        centre = (inward @ self.mean[own][..., None]).flatten(1, 2)
        scale = inward.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)
        constant = self.log_weight[own] + scale - 0.5 * self.features * math.log(2 * math.pi)
        found: Any = _Mixed.apply(x, inward.flatten(1, 2), centre, constant[..., None])
        return found.double()

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return rows drawn from the mixtures in turn."""
        where = home(self)
        options = {"generator": generator, "device": generator.device}
        member = torch.arange(rows, device=generator.device) % self.members
        uniform = torch.rand(rows, 1, dtype=torch.float64, **options)
        bounds = self.log_weight.double().softmax(1).cumsum(1)[member]
        picked = (uniform > bounds[:, :-1]).sum(1)
        noise = torch.randn(rows, self.features, 1, dtype=where.dtype, **options)
        inward = self.inward[member, picked].tril()
        return (
            self.mean[member, picked]
            + torch.linalg.solve_triangular(inward, noise, upper=False)[..., 0]
        )


class _Mixed(torch.autograd.Function):
    """Log-densities of mixtures, with slopes in closed form: on the way of every chain's step.

    All components' coordinates are one product, and so are their slopes.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, inward: Tensor, centre: Tensor, constant: Tensor) -> Tensor:
        """Return `(members, rows)`."""
        off = even_product(inward, x, -centre)
        parts = off.unflatten(1, (constant.shape[1], -1))
        heights = torch.sub(constant, parts.square().sum(2), alpha=0.5)
        found = torch.logsumexp(heights, 1)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(off, heights.sub_(found[:, None]).exp_(), inward)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the slopes by `x`: each component's, by its share."""
        off, share, inward = ctx.saved_tensors
        share = (share * -gradient[:, None])[:, :, None]
        pull = (off.unflatten(1, (share.shape[1], -1)) * share).flatten(1, 2)
        return even_product(inward.mT, pull), None, None, None
