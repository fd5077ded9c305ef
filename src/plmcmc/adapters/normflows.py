"""normflows' models: layers from noise to data, and a base for each level of them."""

from __future__ import annotations

from typing import Any

from torch import Generator, Tensor

from plmcmc.adapters.bridge import Bridge, Family, as_flow
from plmcmc.adapters.packing import Packing
from plmcmc.adapters.randomness import seeded_by
from plmcmc.adapters.refusal import refuse_moving_layers
from plmcmc.flows import BrokenFlow, Flow, home


class NormflowsFlow(Bridge):
    """A `NormalizingFlow`, or a `ConditionalNormalizingFlow` with contexts, as a `Flow`."""

    def __init__(self, flow: Any) -> None:
        super().__init__()
        self.flow = flow

    # normflows' own sums of log-dets are float32, whatever the model: they are made here.
    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        log_det, options = x.new_zeros(len(x)), self._options(len(x))
        for layer in reversed(self.flow.flows):
            x, term = layer.inverse(x, **options)
            log_det = log_det + term
        return x, log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        log_det, options = z.new_zeros(len(z)), self._options(len(z))
        for layer in self.flow.flows:
            z, term = layer(z, **options)
            log_det = log_det + term
        return z, log_det

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the base."""
        return self.flow.q0.log_prob(z, **self._options(len(z)))

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws from the base."""
        with seeded_by(generator):
            return self.flow.q0(rows, **self._options(rows))[0].detach()

    def _options(self, rows: int) -> dict[str, Any]:
        context = self.context_of(rows)
        return {} if context is None else {"context": context}


class MultiscaleNormflowsFlow(Bridge):
    """A `MultiscaleFlow`, whose latents are a list, as a `Flow` with flat latents.

    Contexts of a class-conditional one are the labels, one number per row.
    """

    def __init__(self, flow: Any, packing: Packing) -> None:
        super().__init__()
        self.flow = flow
        self.packing = packing

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        parts, log_det = self.flow.inverse_and_log_det(x)
        return self.packing.pack(parts), log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        return self.flow.forward_and_log_det(self.packing.unpack(z))

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of all levels together."""
        given = self._labels(len(z))
        terms = (
            base.log_prob(part, *given)
            for base, part in zip(self.flow.q0, self.packing.unpack(z), strict=True)
        )
        return sum(terms, start=z.new_zeros(len(z)))

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws of all levels."""
        given = self._labels(rows)
        with seeded_by(generator):
            return self.packing.pack([base(rows, *given)[0] for base in self.flow.q0]).detach()

    def _labels(self, rows: int) -> tuple[Tensor, ...]:
        labels = self.context_of(rows)
        return () if labels is None else (labels.long(),)


def bridge(flow: Any) -> Flow | Family:
    """Return a normflows model as a `Flow`, or as a `ContextualFlow` if it needs a context."""
    kinds = {kind.__name__ for kind in type(flow).__mro__}
    if not kinds & {"NormalizingFlow", "MultiscaleFlow"}:
        raise TypeError(
            f"{type(flow).__name__} is not a normflows model that plmcmc knows: pass a "
            f"NormalizingFlow, ConditionalNormalizingFlow or MultiscaleFlow"
        )
    refuse_moving_layers(flow)
    _refuse_layers(flow)
    if "MultiscaleFlow" in kinds:
        adapted = MultiscaleNormflowsFlow(flow, _levels(flow))
        contextual = bool(flow.class_cond)
    else:
        adapted, contextual = NormflowsFlow(flow), "ConditionalNormalizingFlow" in kinds
    return as_flow(adapted, type(flow).__name__, contextual=contextual)


def _levels(flow: Any) -> Packing:
    """Return the codec of a multiscale model's levels, by a draw from each."""
    with seeded_by(Generator(home(flow).device).manual_seed(0)):
        return Packing(base(1)[0].shape[1:] for base in flow.q0)


def _refuse_layers(flow: Any) -> None:
    """Refuse what normflows has that no row can be sampled with."""
    for layer in flow.modules():
        name = type(layer).__name__
        if name == "BatchNorm" and type(layer).__module__.startswith("normflows"):
            raise BrokenFlow(
                "normflows' BatchNorm uses the mean of the current batch, even in eval mode, and "
                "has no inverse: build the model with ActNorm instead"
            )
        if "Circular" in name or "Periodic" in name or name == "UniformGaussian":
            raise BrokenFlow(
                f"normflows' {name} is for angles, and its density repeats endlessly beyond the "
                "circle: build the model from layers and a base on the real line"
            )
