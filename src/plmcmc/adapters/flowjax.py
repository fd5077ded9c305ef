"""flowjax's distributions, through NumPy: no derivatives, so only kernels that need none."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from plmcmc.adapters.bridge import Bridge, Family, as_flow
from plmcmc.adapters.randomness import seed_from
from plmcmc.flows import Flow


class Compiled(NamedTuple):
    """What JAX computes, for many rows at once; with conditions, each takes them last."""

    encode: Callable[..., Any]
    decode: Callable[..., Any]
    height: Callable[..., Any]
    draw: Callable[..., Any]


class FlowjaxFlow(Bridge):
    """A flowjax distribution, computed by JAX on the CPU, as a `Flow` without derivatives."""

    def __init__(self, compiled: Compiled, dtype: torch.dtype) -> None:
        super().__init__()
        self.compiled = compiled
        # There are no parameters to tell in which precision this computes.
        self.register_buffer("where", torch.empty(0, dtype=dtype), persistent=False)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        z, log_det = self.compiled.encode(_array(x), *self._conditions(len(x)))
        return _tensor(z), _tensor(log_det)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        x, log_det = self.compiled.decode(_array(z), *self._conditions(len(z)))
        return _tensor(x), _tensor(log_det)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the base."""
        return _tensor(self.compiled.height(_array(z), *self._conditions(len(z))))

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws from the base."""
        random = _jax().random
        # JAX takes seeds of 32 bits unless it was told to compute in 64.
        key = random.key(seed_from(generator) % 2**32)
        return _tensor(self.compiled.draw(random.split(key, rows), *self._conditions(rows)))

    def _conditions(self, rows: int) -> tuple[NDArray[Any], ...]:
        context = self.context_of(rows)
        return () if context is None else (_array(context),)


def bridge(distribution: Any) -> Flow | Family:
    """Return a flowjax distribution as a `Flow`, or as a `ContextualFlow` if it is conditional."""
    if not hasattr(distribution, "bijection"):
        raise TypeError(
            f"{type(distribution).__name__} is not a flowjax flow: pass one of flowjax.flows, or a "
            f"Transformed(base, bijection)"
        )
    dtype = torch.float64 if _jax().config.jax_enable_x64 else torch.float32
    conditional = distribution.cond_shape is not None
    adapted = FlowjaxFlow(_compiled(distribution, conditional), dtype)
    return as_flow(adapted, type(distribution).__name__, contextual=conditional)


def _compiled(distribution: Any, conditional: bool) -> Compiled:
    """Return the four maps for many rows: flowjax's own are for one."""
    jax = _jax()
    plain = import_module("paramax").unwrap(distribution.merge_transforms())
    bijection, base = plain.bijection, plain.base_dist

    def over_rows(function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.jit(jax.vmap(function if conditional else lambda row: function(row, None)))

    return Compiled(
        over_rows(bijection.inverse_and_log_det),
        over_rows(bijection.transform_and_log_det),
        over_rows(base._log_prob),
        over_rows(base._sample),
    )


def _jax() -> Any:
    """Return JAX, which whoever holds a flowjax flow has loaded; loading it takes seconds."""
    return import_module("jax")


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().numpy()


def _tensor(array: Any) -> Tensor:
    # A copy: JAX's arrays are read-only, and torch's are not.
    return torch.from_numpy(np.array(array))
