"""Preprocessing bound to a flow, so that its data space is the user's own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from plmcmc.flows.base import Configured
from plmcmc.flows.protocol import Flow, tempered
from plmcmc.flows.rows import row_sum


class Step(Configured, ABC):
    """A bijection between the user's values and a flow's, rebuilt from `config` and tensors."""

    @abstractmethod
    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values the flow sees, and the log-determinant `(rows,)`."""

    @abstractmethod
    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the user's values, and the log-determinant `(rows,)`."""

    @classmethod
    def of_config(cls, **config: Any) -> Step:
        """Return a step from its `config`; its tensors are filled in from a file."""
        return cls(**config)

    def dequantised(self, x: Tensor, generator: Generator) -> Tensor:
        """Return training data for this step; only `Dequantise` adds noise to it."""
        del generator
        return x


class Preprocessed(nn.Module):
    """A flow with preprocessing steps; the first step is applied to the user's data.

    Example:
        >>> from plmcmc.flows import Linear
        >>> flow = Preprocessed([Whiten(torch.tensor([5.0]), torch.tensor([2.0]))], Linear(1))
        >>> flow.to_latent(torch.tensor([[9.0]]))[0].item()
        2.0
    """

    name = "preprocessed"

    def __init__(self, steps: Sequence[Step], flow: Flow) -> None:
        super().__init__()
        if not isinstance(flow, nn.Module):
            raise TypeError(f"flow must be a torch module; got {type(flow).__name__}")
        # A ModuleList's items are typed as tensors or modules: the typed tuple is what we walk.
        self.chain = tuple(steps)
        self.steps = nn.ModuleList(steps)
        self.flow = flow

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        log_det = 0.0
        for step in self.chain:
            x, term = step.to_latent(x)
            log_det = log_det + term
        z, term = self.flow.to_latent(x)
        return z, log_det + term

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        x, log_det = self.flow.to_data(z)
        for step in reversed(self.chain):
            x, term = step.to_data(x)
            log_det = log_det + term
        return x, log_det

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the latents."""
        return self.flow.latent_log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return latents drawn from their density."""
        return self.flow.latent_sample(rows, generator)

    def tempered(self, rows: int, generator: Generator, temperature: float) -> Tensor:
        """Return the flow's own latents at a temperature."""
        return tempered(self.flow, rows, generator, temperature)

    def prepare(self, x: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return training data as the inner flow sees it, newly dequantised, and the log-det."""
        log_det = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        for step in self.chain:
            x, term = step.to_latent(step.dequantised(x, generator))
            log_det = log_det + term
        return x, log_det


class Whiten(Step):
    """`(x - mean) / scale`, entry by entry; see `plmcmc.data.observed_moments`."""

    name = "whiten"

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        _check_scale(scale)
        mean, scale = torch.broadcast_tensors(mean, scale)
        self.config = {"shape": list(mean.shape)}
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())
        self.register_load_state_dict_post_hook(_check_loaded)

    @classmethod
    def of_config(cls, **config: Any) -> Whiten:
        """Return a step of this shape, to be filled from a file."""
        return cls(torch.zeros(config["shape"]), torch.ones(config["shape"]))

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the whitened values."""
        return (x - self.mean) / self.scale, -self._log_scale(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values in the user's units."""
        return z * self.scale + self.mean, self._log_scale(z)

    def _log_scale(self, x: Tensor) -> Tensor:
        return self.scale.double().log().expand(x.shape[1:]).sum().expand(len(x))


def _check_loaded(step: nn.Module, _: object) -> None:
    if isinstance(step, Whiten):
        _check_scale(step.scale)


def _check_scale(scale: Tensor) -> None:
    if not bool((scale > 0).all()):
        raise ValueError("scale must be positive everywhere")


class Logit(Step):
    """Values within `[low, high]` to the real line: `logit(margin + (1 - 2 margin) share)`.

    The margin keeps the end points finite; draws may therefore lie slightly outside the interval.
    """

    name = "logit"

    def __init__(self, low: float = 0.0, high: float = 1.0, margin: float = 1e-6) -> None:
        super().__init__()
        if not low < high:
            raise ValueError(f"low must be below high; got {low} and {high}")
        if not 0 <= margin < 0.5:
            raise ValueError(f"margin must be in [0, 0.5); got {margin}")
        # Plain numbers, which JSON can hold: `x.min()` is a tensor, and may be on a GPU.
        low, high, margin = float(low), float(high), float(margin)
        self.config = {"low": low, "high": high, "margin": margin}
        self.low, self.margin = low, margin
        self.slope = (1 - 2 * margin) / (high - low)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits."""
        z = torch.logit(self.margin + self.slope * (x - self.low))
        return z, -self._log_det(z)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values within the interval."""
        return self.low + (torch.sigmoid(z) - self.margin) / self.slope, self._log_det(z)

    def _log_det(self, z: Tensor) -> Tensor:
        log_slope = nn.functional.logsigmoid(z) + nn.functional.logsigmoid(-z)
        return row_sum(log_slope - math.log(self.slope))


class Dequantise(Step):
    """Integers `0 .. levels - 1` to `(0, 1)`; each integer maps to the middle of its bin.

    Training adds uniform noise within each bin (uniform dequantisation); conditioning on an
    observed integer uses the middle of its bin. Round draws to get integers back.
    """

    name = "dequantise"

    def __init__(self, levels: int) -> None:
        super().__init__()
        if levels < 2:
            raise ValueError(f"levels must be at least 2; got {levels}")
        self.levels = int(levels)
        self.config = {"levels": self.levels}

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `(x + 1/2) / levels`."""
        return (x + 0.5) / self.levels, -self._log_det(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return values in units of the integers."""
        return z * self.levels - 0.5, self._log_det(z)

    def dequantised(self, x: Tensor, generator: Generator) -> Tensor:
        """Add noise uniform within a bin."""
        noise = torch.rand(x.shape, generator=generator, dtype=x.dtype, device=generator.device)
        return x + (noise - 0.5).to(x.device)

    def _log_det(self, x: Tensor) -> Tensor:
        log_levels = torch.full((), math.log(self.levels), dtype=torch.float64, device=x.device)
        return (log_levels * x[0].numel()).expand(len(x))


class Flatten(Step):
    """Rows of any shape, such as images, to flat vectors."""

    name = "flatten"

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.config = {"shape": list(shape)}
        self.shape = tuple(shape)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return flat rows."""
        return x.flatten(1), _zeros(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows of the original shape."""
        return z.unflatten(1, self.shape), _zeros(z)


class ChannelsFirst(Step):
    """Images `(height, width, channels)`, as stored in files, to `(channels, height, width)`."""

    name = "channels-first"

    def __init__(self) -> None:
        super().__init__()
        self.config = {}

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return channels first."""
        return x.movedim(-1, 1), _zeros(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return channels last."""
        return z.movedim(1, -1), _zeros(z)


def _zeros(x: Tensor) -> Tensor:
    return torch.zeros(len(x), dtype=torch.float64, device=x.device)
