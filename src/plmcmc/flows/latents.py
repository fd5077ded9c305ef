"""Latent densities: independent coordinates, normal or logistic."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor
from torch.nn.functional import logsigmoid

from plmcmc.flows.rows import row_sum


class Normal:
    """Standard normal coordinates.

    Attributes:
        peak: largest log-density of one coordinate.
    """

    peak = -0.5 * math.log(2 * math.pi)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the sum of standard normal log-densities, `(rows,)` in float64."""
        return -0.5 * row_sum(z.square()) + self.peak * z[0].numel()

    def sample(self, shape: tuple[int, ...], generator: Generator, dtype: torch.dtype) -> Tensor:
        """Return standard normals on the generator's device."""
        return torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)


class Logistic:
    """Standard logistic coordinates, deviation pi / sqrt(3): the paper's MNIST latents."""

    peak = -math.log(4)

    def log_prob(self, z: Tensor) -> Tensor:
        """Return the sum of standard logistic log-densities."""
        return -row_sum(torch.sub(z, logsigmoid(z), alpha=2))

    def sample(self, shape: tuple[int, ...], generator: Generator, dtype: torch.dtype) -> Tensor:
        """Return standard logistics, by inversion in float64 (float32 has no tail near 1)."""
        options = {"dtype": torch.float64, "device": generator.device}
        uniform = torch.rand(shape, generator=generator, **options)
        return torch.logit(uniform, eps=1e-16).to(dtype)


LATENTS: dict[str, Normal | Logistic] = {"normal": Normal(), "logistic": Logistic()}
