"""Densities of scores that files hold: refused before any draw if they are none, or overflow."""

from __future__ import annotations

import torch
from torch import Tensor

from plmcmc.flows import GaussianMixture, TabularFlow
from plmcmc.storage.stored import WEIGHTS

# No mean of normal scores, nor a deviation of them, is near this.
FARTHEST = 1e3
# Components of all mixtures together: each takes a matrix for every row.
MOST_COMPONENTS = 4096
# Points at which a flow is tried, and what may not come of them.
PROBES, OVERFLOW = 7, 1e12


def check_moments(mean: Tensor, covariance: Tensor, name: str) -> None:
    """Refuse Gaussians that no scores have."""
    if not bool(mean.isfinite().all() & covariance.isfinite().all()):
        raise ValueError(f"{WEIGHTS}, {name}: expected finite numbers")
    if float(mean.abs().max()) > FARTHEST or float(covariance.abs().max()) > FARTHEST**2:
        raise ValueError(f"{WEIGHTS}, {name}: expected moments of normal scores")
    # Of a matrix that is not symmetric, only one half is looked at by what follows.
    even = bool(torch.allclose(covariance, covariance.mT, rtol=1e-6, atol=1e-9))
    if not even or bool(torch.linalg.cholesky_ex(covariance).info.any()):
        raise ValueError(
            f"{WEIGHTS}, {name}.covariance: expected a positive definite, symmetric matrix"
        )


def check_mixture(mixture: GaussianMixture) -> None:
    """Refuse Gaussians that no scores have: of no width, of hardly any, or far away."""
    if mixture.members * mixture.components > MOST_COMPONENTS:
        raise ValueError(
            f"config.json, mixture: expected at most {MOST_COMPONENTS} components over all "
            f"members; got {mixture.members * mixture.components}"
        )
    inward = mixture.inward.tril().double()
    widths = inward.diagonal(dim1=-2, dim2=-1)
    sane = ((widths > 1 / FARTHEST) & (widths < FARTHEST)).all()
    near = (mixture.mean.abs() < FARTHEST).all() & (mixture.log_weight.abs() < FARTHEST).all()
    if bool(sane & near):
        # What is solved for later: covariances that are far from singular.
        eye = torch.eye(mixture.features, dtype=inward.dtype).expand_as(inward)
        root = torch.linalg.solve_triangular(inward, eye, upper=False)
        covariance = root @ root.mT
        factor, failed = torch.linalg.cholesky_ex(covariance)
        widths = factor.diagonal(dim1=-2, dim2=-1)
        sane = ~failed.any() & (widths > 1 / FARTHEST).all()
        near = (covariance.abs() < FARTHEST**2).all()
    if not bool(sane & near):
        raise ValueError(f"{WEIGHTS}, mixture: expected mixtures of normal scores")


@torch.no_grad()
def check_bounded(flow: TabularFlow) -> None:
    """Refuse a flow of scores that overflows where scores are: weights may be finite, and huge."""
    points = torch.linspace(-3, 3, PROBES)[:, None].expand(-1, flow.features)
    rows = points.repeat_interleave(flow.members, 0)
    for way in (flow.to_latent, flow.to_data):
        found, log_det = way(rows)
        # The square of a latent is part of its density, and must be finite, too.
        if not bool((found.abs() < OVERFLOW).all() & log_det.isfinite().all()):
            raise ValueError(f"{WEIGHTS}, flow: its numbers are too large to compute with")
