"""What Glow is made of (Kingma and Dhariwal, 2018): channels normed and mixed, halves coupled.

Norms are folded into the convolutions next to them: one pass over the activations instead of three.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, logsigmoid

from plmcmc.flows.base import check_order, total
from plmcmc.flows.conditioner import ACTIVATIONS
from plmcmc.flows.passes.weight_cache import Kept
from plmcmc.flows.rows import row_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Against dividing by the deviation of a channel that is constant in the first batch.
LEAST_DEVIATION = 1e-6
# Raw scales start at 0, and layers near the identity: sigmoid(2) is .88.
OFFSET = 2.0
# Zero-initialised layers learn faster by this power of their scale.
GAIN = 3.0
SPREAD = 0.05


class Norm(nn.Module):
    """`(x + bias) * exp(log_scale)` of each channel; a first batch can say where to begin."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))
        self.waiting = False

    def meet(self, x: Tensor) -> None:
        """Set the norm so that these activations have mean 0 and deviation 1, if it waits."""
        if self.waiting:
            spread, mean = torch.std_mean(x.detach(), (0, 2, 3), correction=0)
            with torch.no_grad():
                self.bias.copy_(-mean)
                self.log_scale.copy_(-(spread + LEAST_DEVIATION).log())


@contextmanager
def meeting_data(module: nn.Module) -> Iterator[None]:
    """Let all norms of a module take what comes next as their first batch."""
    norms = [part for part in module.modules() if isinstance(part, Norm)]
    for norm in norms:
        norm.waiting = True
    try:
        yield
    finally:
        for norm in norms:
            norm.waiting = False


class Map(NamedTuple):
    """A linear map of every pixel's channels: `weight x + bias`."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it, in full precision: what it loses could not be undone.

        As a matrix product, since on a GPU a convolution would be rounded (TF32).
        """
        with torch.autocast(x.device.type, enabled=False):
            return linear(x.movedim(1, -1), self.weight, self.bias).movedim(-1, 1)


class _Known(NamedTuple):
    """What a mixing does to a pixel."""

    map: Map
    log_det: Tensor


class Mixing(nn.Module):
    """A norm, then an invertible 1x1 convolution `P L U`: channels meet others in every step."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = Norm(channels)
        self.permutation: Tensor
        self.sign: Tensor
        self.register_buffer("permutation", torch.arange(channels))
        self.register_buffer("sign", torch.ones(channels))
        self.lower = nn.Parameter(torch.zeros(channels, channels))
        self.upper = nn.Parameter(torch.zeros(channels, channels))
        self.log_diagonal = nn.Parameter(torch.zeros(channels))
        self.take(torch.linalg.qr(torch.randn(channels, channels, dtype=torch.float64)).Q)
        self._kept = Kept()
        self.register_load_state_dict_post_hook(_check_mixing)

    @torch.no_grad()
    def take(self, matrix: Tensor) -> None:
        """Mix by this matrix from now on."""
        permutation, lower, upper = torch.linalg.lu(matrix.double())
        diagonal = upper.diagonal()
        self.permutation.copy_(permutation.argmax(1))
        self.sign.copy_(diagonal.sign())
        self.lower.copy_(lower.tril(-1))
        self.upper.copy_(upper.triu(1))
        self.log_diagonal.copy_(diagonal.abs().log())

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mixed channels and the log-determinant, the same for every row."""
        self.norm.meet(x)
        known = self._known("to_latent", x.dtype, self._map)
        return known.map(x), known.log_det * (x.shape[2] * x.shape[3])

    def to_data(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the channels as they were."""
        known = self._known("to_data", y.dtype, self._back)
        return known.map(y), -known.log_det * (y.shape[2] * y.shape[3])

    def _map(self) -> Map:
        lower, upper = self._factors()
        weight = (lower @ upper).index_select(0, self.permutation)
        scale, bias = self.norm.log_scale.double().exp(), self.norm.bias.double()
        return Map(weight * scale, weight @ (scale * bias))

    def _back(self) -> Map:
        lower, upper = self._factors()
        eye = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
        order = eye.index_select(1, self.permutation)
        back = torch.linalg.solve_triangular(lower, order, upper=False, unitriangular=True)
        weight = torch.linalg.solve_triangular(upper, back, upper=True)
        scale, bias = self.norm.log_scale.double().exp(), self.norm.bias.double()
        return Map(weight / scale[:, None], -bias)

    def _factors(self) -> tuple[Tensor, Tensor]:
        """Return the triangular factors in float64: the inverse must undo the map."""
        lower, upper = self.lower.double().tril(-1), self.upper.double().triu(1)
        diagonal = self.sign.double() * self.log_diagonal.double().exp()
        return lower + torch.eye(len(lower), device=lower.device), upper + diagonal.diag()

    def _known(self, way: str, dtype: torch.dtype, find: Callable[[], Map]) -> _Known:
        """Return a map and its volume."""

        def found() -> _Known:
            weight, bias = find()
            log_det = total(self.norm.log_scale) + total(self.log_diagonal)
            return _Known(Map(weight.to(dtype), bias.to(dtype)), log_det)

        weights = (self.lower, self.upper, self.log_diagonal, *self.norm.parameters())
        return self._kept.get(way, found, weights, (self.permutation, self.sign), dtype)


def _check_mixing(mixing: nn.Module, _: object) -> None:
    """Refuse what could not be undone, after a state was loaded."""
    if isinstance(mixing, Mixing):
        check_order(mixing.permutation, "permutation")
        if not bool((mixing.sign.abs() == 1).all()):
            raise ValueError("sign: expected 1 and -1 only")


class NormedConvolution(nn.Module):
    """A convolution that keeps the image's size, and a norm."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(SPREAD * torch.randn(outputs, inputs, size, size))
        self.norm = Norm(outputs)
        self._kept = Kept()

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed output."""
        same = self.weight.shape[2] // 2
        if self.norm.waiting:
            self.norm.meet(conv2d(x, self.weight, padding=same))
        weights = (self.weight, self.norm.bias, self.norm.log_scale)
        return conv2d(x, *self._kept.get("folded", self._folded, weights), padding=same)

    def _folded(self) -> Map:
        return _scaled(self.weight, self.norm.bias, self.norm.log_scale.exp())


class ZeroConvolution(nn.Module):
    """A 3x3 convolution whose output starts at zero, so that a flow starts simple."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.log_scale = nn.Parameter(torch.zeros(outputs))
        self._kept = Kept()

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled output."""
        weights = (self.weight, self.bias, self.log_scale)
        return conv2d(x, *self._kept.get("folded", self._folded, weights), padding=1)

    def _folded(self) -> Map:
        return _scaled(self.weight, self.bias, (GAIN * self.log_scale).exp())


class Coupling(nn.Module):
    """One half of the channels says how the other is shifted, and scaled if it is affine."""

    def __init__(self, channels: int, width: int, *, affine: bool, activation: str) -> None:
        super().__init__()
        self.affine, half = affine, channels // 2
        self.activation = ACTIVATIONS[activation]()
        self.first = NormedConvolution(half, width, 3)
        self.second = NormedConvolution(width, width, 1)
        self.last = ZeroConvolution(width, channels if affine else half)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the coupled channels and the log-determinant `(rows,)`."""
        given, moved = x.chunk(2, 1)
        shift, log_scale = self._said(given)
        return torch.cat([given, (moved + shift) * log_scale.exp()], 1), row_sum(log_scale)

    def to_data(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the channels as they were."""
        given, moved = y.chunk(2, 1)
        shift, log_scale = self._said(given)
        return torch.cat([given, moved * (-log_scale).exp() - shift], 1), -row_sum(log_scale)

    def _said(self, given: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.activation(self.second(self.activation(self.first(given))))
        found = self.last(hidden).to(given.dtype)
        if not self.affine:
            return found, torch.zeros_like(found)
        shift, raw = found.chunk(2, 1)
        return shift, logsigmoid(raw + OFFSET)


class Step(nn.Module):
    """Channels mixed, then coupled."""

    def __init__(self, channels: int, width: int, *, affine: bool, activation: str) -> None:
        super().__init__()
        self.mixing = Mixing(channels)
        self.coupling = Coupling(channels, width, affine=affine, activation=activation)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return activations one step nearer to the latents, and the log-determinant."""
        y, constant = self.mixing.to_latent(x)
        z, log_det = self.coupling.to_latent(y)
        return z, log_det + constant

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return activations one step nearer to the data."""
        y, log_det = self.coupling.to_data(z)
        x, constant = self.mixing.to_data(y)
        return x, log_det + constant


def squeezed(x: Tensor) -> Tensor:
    """Return 2x2 pixels as four times the channels: the four of a channel side by side."""
    return nn.functional.pixel_unshuffle(x, 2)


def unsqueezed(x: Tensor) -> Tensor:
    """Return what was squeezed."""
    return nn.functional.pixel_shuffle(x, 2)


def _scaled(weight: Tensor, bias: Tensor, scale: Tensor) -> Map:
    """Return a convolution whose outputs are scaled."""
    return Map(weight * scale[:, None, None, None], bias * scale)
