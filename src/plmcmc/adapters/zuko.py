"""zuko's flows: `flow(context)` gives a distribution whose transform goes from data to noise.

zuko itself is not imported: doing so switches off torch.distributions' validation everywhere, and
whoever holds one of its flows has imported it already.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor, nn

from plmcmc.adapters.bridge import Bridge, Family, as_flow, per_row
from plmcmc.adapters.randomness import seeded_by
from plmcmc.adapters.refusal import refuse_moving_layers
from plmcmc.flows import BrokenFlow, Flow, home


class ZukoFlow(Bridge):
    """A zuko flow, unconditional or given a context for each row, as a `Flow`."""

    def __init__(self, flow: Any) -> None:
        super().__init__()
        self.flow = flow
        self.circular = any(map(_is_circular, flow.modules()))

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        z, log_det = self._distribution(len(x)).transform.call_and_ladj(x)
        log_det = per_row(log_det, x)
        if self.circular:
            # zuko repeats the density beyond the circle, without end: none of it is there.
            log_det = log_det.where((x.abs() <= math.pi).flatten(1).all(1), -torch.inf)
        return _untracked(z), log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        x, log_det = self._distribution(len(z)).transform.inv.call_and_ladj(z)
        return _untracked(x), per_row(log_det, z)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the base."""
        return per_row(self._distribution(len(z)).base.log_prob(z), z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws from the base."""
        base = self._distribution(rows).base
        with seeded_by(generator):
            return base.sample((rows,) if len(base.batch_shape) == 0 else ())

    def _distribution(self, rows: int) -> Any:
        """Return zuko's distribution for the first `rows` contexts, or the only one."""
        context = self.context_of(rows)
        return self.flow() if context is None else self.flow(context)


def bridge(flow: Any) -> Flow | Family:
    """Return a zuko flow as a `Flow`, or as a `ContextualFlow` when it cannot do without one."""
    if not isinstance(flow, nn.Module) or not hasattr(flow, "transform"):
        raise TypeError(
            f"{type(flow).__name__} is not a zuko flow: pass zuko.flows.NSF(...) or similar, and "
            "not what it returns when called"
        )
    refuse_moving_layers(flow)
    if any(getattr(layer, "exact", True) is False for layer in flow.modules()):
        raise BrokenFlow(
            f"{type(flow).__name__} was built with exact=False: its log-determinant is an "
            "estimate, so sampling cannot be exact; build it with exact=True"
        )
    return as_flow(ZukoFlow(flow), type(flow).__name__, contextual=_needs_context(flow))


def _is_circular(layer: Any) -> bool:
    """Whether a layer's splines are on the circle from -pi to pi, as those of zuko's NCSF."""
    univariate = getattr(layer, "univariate", None)
    made_by = getattr(univariate, "func", univariate)
    return getattr(made_by, "__name__", "") == "CircularRQSTransform"


def _untracked(tensor: Tensor) -> Tensor:
    """Return the tensor without a graph where none is wanted: zuko's monotonic layers build one."""
    # Not detach, which would drop forward-mode derivatives, too.
    return tensor.clone() if tensor.requires_grad and not torch.is_grad_enabled() else tensor


def _needs_context(flow: Any) -> bool:
    """Try the flow without a context on one row of zeros: its networks fail if they want one."""
    try:
        distribution = flow()
        distribution.log_prob(home(flow).bring(torch.zeros(1, *distribution.event_shape)))
    except (TypeError, RuntimeError, AttributeError):
        return True
    return False
