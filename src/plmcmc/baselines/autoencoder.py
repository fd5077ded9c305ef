"""A variational autoencoder of rows with holes, and the weights of its latents.

Mattei and Frellsen (2019). Latents are standard normal a priori; a row's columns are Student's t
given its latents, each by itself, so that leaving out the columns that are missing is all that
holes take.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Normal
from torch.nn import functional

# The likelihood of a row must have a bound, and its columns a mean and a deviation.
LEAST_SCALE, LEAST_FREEDOM = 1e-3, 3.0


class StudentColumns(NamedTuple):
    """Student's t of every column by itself: torch's own has checks that wait for the device.

    Attributes:
        freedom: degrees of freedom, `(..., columns)`.
        mean: same shape; where the density is centred.
        scale: same shape; how wide it is.
    """

    freedom: Tensor
    mean: Tensor
    scale: Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density of each value."""
        half = (self.freedom + 1) / 2
        tails = half * torch.log1p(((x - self.mean) / self.scale).square() / self.freedom)
        size = (self.freedom * math.pi).log() / 2 + self.scale.log()
        return torch.lgamma(half) - torch.lgamma(self.freedom / 2) - size - tails


class Weighted(NamedTuple):
    """Latents of rows drawn from the encoder, and what follows from them.

    Attributes:
        log_weights: `(samples, rows)`: log of p(x_O given z) p(z) / q(z given x_O).
        columns: Student's t of `(samples, rows, columns)`, given the latents.
    """

    log_weights: Tensor
    columns: StudentColumns


class Autoencoder(nn.Module):
    """Encoder and decoder with hidden layers of rectifiers.

    Args:
        columns: of the table.
        latent: dimensions of the latents.
        width: units of a hidden layer.
        layers: hidden layers of each network.
    """

    def __init__(self, columns: int, latent: int, width: int, layers: int) -> None:
        super().__init__()
        self.latent = latent
        # What one latent of one row takes at most.
        self.widest = max(width, 3 * columns)
        self.encoder = _network(columns, 2 * latent, width, layers)
        self.decoder = _network(latent, 3 * columns, width, layers)

    def noise(self, samples: int, rows: int, source: Generator) -> Tensor:
        """Return what latents are drawn by: standard normal, `(samples, rows, latent)`."""
        return torch.randn(samples, rows, self.latent, generator=source, device=source.device)

    def encoded(self, x: Tensor, observed: Tensor) -> Normal:
        """Return q(z given x_O) of rows `(rows, columns)`, with 0 for what is missing."""
        mean, raw = self.encoder(torch.where(observed, x, 0.0)).chunk(2, -1)
        # Unchecked: a check waits for the device.
        return Normal(mean, functional.softplus(raw) + LEAST_SCALE, validate_args=False)

    def decoded(self, z: Tensor) -> StudentColumns:
        """Return p(x given z) of every column by itself."""
        mean, scale, freedom = self.decoder(z).chunk(3, -1)
        return StudentColumns(
            functional.softplus(freedom) + LEAST_FREEDOM,
            mean,
            functional.softplus(scale) + LEAST_SCALE,
        )

    def weighted(self, x: Tensor, observed: Tensor, noise: Tensor) -> Weighted:
        """Return latents for standard normal `noise` of shape `(samples, rows, latent)`."""
        proposal = self.encoded(x, observed)
        z = proposal.mean + proposal.stddev * noise
        columns = self.decoded(z)
        likelihood = torch.where(observed, columns.log_prob(torch.where(observed, x, 0.0)), 0.0)
        # Of the two normal densities, the same constant is left out.
        prior = -0.5 * z.square()
        taken = -0.5 * noise.square() - proposal.stddev.log()
        log_weights = likelihood.sum(-1) + (prior - taken).sum(-1)
        return Weighted(log_weights, columns)


def bound(log_weights: Tensor) -> Tensor:
    """Return the lower bound of each row's log-likelihood, `(rows,)`: the log of the mean weight.

    With one sample it is the usual evidence lower bound, and with more it is closer.
    """
    return log_weights.logsumexp(0) - math.log(len(log_weights))


def _network(inputs: int, outputs: int, width: int, layers: int) -> nn.Sequential:
    sizes = [inputs, *[width] * layers]
    hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], outputs))
