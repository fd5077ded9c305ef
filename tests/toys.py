"""Flows that watch what is asked of them, or break off, and a few things more to test with."""

import warnings
from collections import Counter
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from plmcmc.data import Incomplete
from plmcmc.flows import Flow, Linear
from plmcmc.posterior import (
    BiasedWarning,
    ConvergenceWarning,
    EvidenceWarning,
    StuckWarning,
)

# Standard errors a normal statistic may be off; one correct comparison in 150,000 fails.
DEVIATIONS = 4.5


class Killed(Exception):
    """Stands for a process that dies."""


class Handing(nn.Module):
    """A flow that hands everything on to another; subclasses change what they are about."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.flow.to_latent(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.flow.to_data(z)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        return self.flow.latent_log_prob(z)

    def latent_sample(self, rows: int, generator: torch.Generator) -> Tensor:
        return self.flow.latent_sample(rows, generator)


class Watched(Handing):
    """A flow that counts its passes and their rows, and dies when `left` of them are done."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.calls: Counter[str] = Counter()
        self.rows: list[int] = []
        self.left: int | None = None

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self._watch("to_latent", x)
        return super().to_latent(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        self._watch("to_data", z)
        return super().to_data(z)

    def forget(self) -> None:
        self.calls, self.rows = Counter(), []

    def _watch(self, name: str, tensor: Tensor) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1
        self.calls[name] += 1
        self.rows.append(len(tensor))


def correlated(features: int = 3, dtype: torch.dtype = torch.float64) -> Linear:
    """A Gaussian whose columns have different means, deviations and correlations."""
    source = torch.Generator().manual_seed(1)
    half = torch.randn(features, 2 * features, generator=source, dtype=torch.float64)
    mean = torch.arange(1, features + 1, dtype=torch.float64)
    return Linear.of_moments(mean.to(dtype), (half @ half.T / features).to(dtype))


@contextmanager
def quiet():
    """Chains of a few steps do not converge, and are not asked to."""
    with warnings.catch_warnings():
        for kind in (BiasedWarning, ConvergenceWarning, EvidenceWarning, StuckWarning):
            warnings.simplefilter("ignore", kind)
        yield


def same_bits(one, other) -> bool:
    """Whether two arrays have the same shape, the same type and the same bytes."""
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


class Mixture(nn.Module):
    """`x0 ~ (1 - weight) N(-gap, 1) + weight N(gap, 1)`; others wider where x0 > 0.

    A flow that is a mixture in its first column, by the inverse of its distribution function.
    """

    def __init__(self, features=3, gap=3.0, weight=0.4, ratio=1.5):
        super().__init__()
        grid = torch.linspace(-gap - 9, gap + 9, 20001, dtype=torch.float64)
        normal = torch.distributions.Normal(0.0, 1.0)
        cdf = (1 - weight) * normal.cdf(grid + gap) + weight * normal.cdf(grid - gap)
        self.register_buffer("grid", grid)
        self.register_buffer("cdf", cdf)
        self.features, self.gap, self.weight, self.ratio = features, gap, weight, ratio
        self.normal = normal

    def to_latent(self, x):
        first, rest = x[:, 0], x[:, 1:]
        parts = (1 - self.weight) * self.normal.cdf(first + self.gap)
        share = parts + self.weight * self.normal.cdf(first - self.gap)
        z0 = self.normal.icdf(share.clamp(1e-15, 1 - 1e-15))
        density = (1 - self.weight) * self.normal.log_prob(first + self.gap).exp()
        density = density + self.weight * self.normal.log_prob(first - self.gap).exp()
        width = self._width(first)
        log_det = density.log() - self.normal.log_prob(z0) - rest.shape[1] * width.log()
        return torch.cat([z0[:, None], rest / width[:, None]], 1), log_det

    def to_data(self, z):
        share = self.normal.cdf(z[:, 0])
        place = torch.searchsorted(self.cdf, share.contiguous()).clamp(1, len(self.cdf) - 1)
        low, high = self.cdf[place - 1], self.cdf[place]
        part = ((share - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
        first = self.grid[place - 1] + part * (self.grid[place] - self.grid[place - 1])
        x = torch.cat([first[:, None], z[:, 1:] * self._width(first)[:, None]], 1)
        return x, -self.to_latent(x)[1]

    def latent_log_prob(self, z):
        return self.normal.log_prob(z).sum(1)

    def latent_sample(self, rows, generator):
        return torch.randn(rows, self.features, generator=generator, dtype=torch.float64)

    def _width(self, first):
        return 1 + (self.ratio - 1) * torch.sigmoid(3 * first)


class Bounded(nn.Module):
    """Two columns of uniform latents, the second near the first: most pairs have no density."""

    width = 0.3

    def __init__(self):
        super().__init__()
        # Says that the flow is one of float64.
        self.register_buffer("kind", torch.zeros(1, dtype=torch.float64))

    @classmethod
    def seen(cls, second):
        """Rows of which the second column is seen."""
        values = torch.stack([torch.zeros_like(second), second], 1)
        return Incomplete(values, torch.tensor([False, True]).expand(len(second), 2))

    def to_latent(self, x):
        z = torch.stack([x[:, 0], (x[:, 1] - x[:, 0]) / self.width], 1)
        return z, -torch.full_like(x[:, 0], self.width).log()

    def to_data(self, z):
        x = torch.stack([z[:, 0], z[:, 0] + self.width * z[:, 1]], 1)
        return x, torch.full_like(x[:, 0], self.width).log()

    def latent_log_prob(self, z):
        return torch.where((z.abs() <= 1).all(1), 0 * z.sum(1), -torch.inf)

    def latent_sample(self, rows, generator):
        return 2 * torch.rand(rows, 2, generator=generator, dtype=torch.float64) - 1
