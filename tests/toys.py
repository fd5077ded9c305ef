"""Flows that watch what is asked of them, or break off, and a few things more to test with."""

import warnings
from collections import Counter
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from plmcmc.flows import Flow, Linear
from plmcmc.posterior import BiasedWarning, ConvergenceWarning, StuckWarning

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
        for kind in (BiasedWarning, ConvergenceWarning, StuckWarning):
            warnings.simplefilter("ignore", kind)
        yield


def same_bits(one, other) -> bool:
    """Whether two arrays have the same shape, the same type and the same bytes."""
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
