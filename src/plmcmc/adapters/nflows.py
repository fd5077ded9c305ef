"""nflows' flows: a transform from data to noise, a base, and a network that embeds contexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn

from plmcmc.adapters.bridge import Bridge, Family, as_flow
from plmcmc.adapters.randomness import seeded_by
from plmcmc.adapters.refusal import refuse_moving_layers
from plmcmc.flows import Flow, home

Mapped = tuple[Tensor, Tensor]


class NflowsFlow(Bridge):
    """An nflows flow, unconditional or given a context for each row, as a `Flow`."""

    def __init__(self, flow: Any) -> None:
        super().__init__()
        self.flow = flow

    def with_context(self, context: Tensor) -> NflowsFlow:
        """Return the flow given contexts, which are embedded once."""
        with torch.no_grad():
            return super().with_context(self.flow._embedding_net(context))

    def to_latent(self, x: Tensor) -> Mapped:
        """Return `z` and `log |det dz/dx|`."""
        return _within_domain(self.flow._transform, x, self.context_of(len(x)))

    def to_data(self, z: Tensor) -> Mapped:
        """Return `x` and `log |det dx/dz|`."""
        return _within_domain(self.flow._transform.inverse, z, self.context_of(len(z)))

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the base."""
        return self.flow._distribution.log_prob(z, context=self.context_of(len(z)))

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws from the base."""
        context = self.context_of(rows)
        with seeded_by(generator), torch.no_grad():
            if context is None:
                drawn = self.flow._distribution.sample(rows)
            else:
                drawn = self.flow._distribution.sample(1, context=context).squeeze(1)
        # nflows draws in float32, whatever the flow's own precision.
        return home(self.flow).bring(drawn)


def bridge(flow: Any) -> Flow | Family:
    """Return an nflows flow as a `Flow`, or as a `ContextualFlow` if it was built for contexts."""
    if not all(hasattr(flow, part) for part in ("_transform", "_distribution", "_embedding_net")):
        raise TypeError(
            f"{type(flow).__name__} is not an nflows flow: pass nflows.flows.Flow(transform, base)"
        )
    refuse_moving_layers(flow)
    return as_flow(NflowsFlow(flow), type(flow).__name__, contextual=_takes_context(flow))


def _takes_context(flow: Any) -> bool:
    """Look at the parts: a masked network built for contexts works without one, and is wrong."""
    return not isinstance(flow._embedding_net, nn.Identity) or any(
        hasattr(layer, "context_layer")
        or hasattr(layer, "_context_encoder")
        or getattr(layer, "context_features", None) is not None
        for layer in flow.modules()
    )


def _within_domain(function: Callable[..., Mapped], rows: Tensor, context: Tensor | None) -> Mapped:
    """Map rows; those outside a spline's domain become NaN, which the kernels reject.

    nflows raises when a single row is outside, as proposals may be: halves are then mapped apart.
    """
    try:
        return function(rows, context=context)
    except Exception as error:
        # AssertionError: a spline without root, by rounding.
        if type(error).__name__ not in ("InputOutsideDomain", "AssertionError"):
            raise
    if len(rows) == 1:
        return torch.full_like(rows, torch.nan), rows.new_full((1,), -torch.inf)
    halves = (slice(0, len(rows) // 2), slice(len(rows) // 2, None))
    parts = [
        _within_domain(function, rows[h], None if context is None else context[h]) for h in halves
    ]
    z, log_det = (torch.cat(part) for part in zip(*parts, strict=True))
    return z, log_det
