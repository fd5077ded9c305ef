"""What the sampler asks of a flow: four methods, never called *forward* or *inverse*."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from plmcmc.flows.rows import choose_rows, finite_rows

# How often samples that are not finite are drawn again.
COOLINGS = 8


@runtime_checkable
class Flow(Protocol):
    """A bijection between data `x` and latents `z`, and the density of the latents.

    The first dimension of all tensors is rows; `log_det` and log-probabilities have shape
    `(rows,)`.
    """

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        ...

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        ...

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the latents."""
        ...

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return latents drawn from their density."""
        ...


@runtime_checkable
class ContextualFlow(Protocol):
    """A family of flows: one for the context of each row."""

    def given(self, context: Tensor) -> Flow:
        """Return the flow whose row i is conditioned on `context[i]`."""
        ...


class Home(NamedTuple):
    """Where a flow computes."""

    dtype: torch.dtype
    device: torch.device

    def bring(self, tensor: Tensor) -> Tensor:
        """Return the tensor in this dtype and on this device."""
        return tensor.to(dtype=self.dtype, device=self.device)


def home(flow: object) -> Home:
    """Return dtype and device of a flow's parameters or buffers; torch's defaults if none."""
    if isinstance(flow, nn.Module):
        for tensor in [*flow.parameters(), *flow.buffers()]:
            if tensor.is_floating_point():
                return Home(tensor.dtype, tensor.device)
    return Home(torch.get_default_dtype(), torch.device("cpu"))


def log_prob(flow: Flow, x: Tensor) -> Tensor:
    """Return `log p(x)` in float64: one pass."""
    z, log_det = flow.to_latent(x)
    return flow.latent_log_prob(z).double() + log_det.double()


def sample(flow: Flow, rows: int, generator: Generator, *, temperature: float = 1.0) -> Tensor:
    """Return unconditional draws; `temperature` scales the latents (below 1: less varied)."""
    return flow.to_data(tempered(flow, rows, generator, temperature))[0]


def cooled(draw: Callable[[float], Tensor], temperature: float = 1.0) -> Tensor:
    """Return samples that `draw` draws at a temperature, those that are not finite closer in.

    Far out, a deep flow may overflow; what overflows is drawn again at half the temperature.
    """
    found = draw(temperature)
    for _ in range(COOLINGS):
        lost = ~finite_rows(found)
        if not bool(lost.any()):
            break
        temperature /= 2
        found = choose_rows(lost, draw(temperature), found)
    return found


def tempered(flow: Flow, rows: int, generator: Generator, temperature: float) -> Tensor:
    """Return latents drawn at a temperature; a flow whose latents have no centre says how."""
    own = getattr(flow, "tempered", None)
    if own is not None:
        return own(rows, generator, temperature)
    return temperature * flow.latent_sample(rows, generator)


def differentiable(flow: Flow, x: Tensor) -> bool:
    """Whether the log-density can be differentiated with respect to the data."""
    with torch.enable_grad():
        z, _ = flow.to_latent(x.detach().requires_grad_())
        heights = flow.latent_log_prob(z)
    if not z.requires_grad:
        return False
    if heights.requires_grad:
        return True
    # A uniform base has no slope to tell of; any other has.
    source = Generator(z.device).manual_seed(0)
    one, other = (flow.latent_log_prob(flow.latent_sample(len(x), source)) for _ in range(2))
    return torch.equal(one, other)
