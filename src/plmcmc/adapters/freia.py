"""FrEIA's networks: from data to one or several outputs, with no base of their own."""

from __future__ import annotations

from typing import Any

from torch import Generator, Tensor

from plmcmc.adapters.bases import Base, base_of
from plmcmc.adapters.bridge import Bridge, Family, as_flow, per_row
from plmcmc.adapters.packing import Packing
from plmcmc.adapters.refusal import refuse_moving_layers
from plmcmc.flows import BrokenFlow, Flow, home


class FreiaFlow(Bridge):
    """A `SequenceINN` or a `GraphINN`, its outputs packed into flat latents, as a `Flow`."""

    def __init__(self, network: Any, packing: Packing, base: Base) -> None:
        super().__init__()
        self.network = network
        self.packing = packing
        self.base = base

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        parts, log_det = self.network(x, c=self._conditions(len(x)))
        return self.packing.pack([parts] if isinstance(parts, Tensor) else parts), per_row(
            log_det, x
        )

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        parts = self.packing.unpack(z)
        x, log_det = self.network(tuple(parts), c=self._conditions(len(z)), rev=True)
        return x if isinstance(x, Tensor) else x[0], per_row(log_det, z)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the base."""
        return self.base.log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws from the base."""
        return self.base.sample(rows, generator)

    def _conditions(self, rows: int) -> list[Tensor] | None:
        context = self.context_of(rows)
        return None if context is None else [context]


def bridge(network: Any, base: Any) -> Flow | Family:
    """Return a network as a `Flow`, or as a `ContextualFlow` if it has a condition."""
    shapes = _outputs(network)
    if base is None:
        raise TypeError(
            f"{type(network).__name__} does not define a density of its latents: name the one it "
            "was trained with, as in plmcmc.adapt(network, base='normal') for independent "
            "standard normals"
        )
    packing = Packing(shapes)
    refuse_moving_layers(network)
    for layer in network.modules():
        if hasattr(layer, "hutchinson_samples"):
            raise BrokenFlow(
                f"{type(layer).__name__} only estimates its log-determinant, so sampling cannot "
                "be exact: build the network from other layers"
            )
    adapted = FreiaFlow(network, packing, base_of(base, packing.size, home(network)))
    return as_flow(adapted, type(network).__name__, contextual=_conditions(network) > 0)


def _outputs(network: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the outputs of a network with one input."""
    if hasattr(network, "global_out_shapes"):
        if len(network.in_nodes) != 1:
            raise TypeError(
                f"{type(network).__name__} has {len(network.in_nodes)} inputs, but a flow takes "
                "one: join them in the network (FrEIA.modules.Concat)"
            )
        return network.global_out_shapes
    if hasattr(network, "shapes") and hasattr(network, "module_list"):
        return [network.shapes[-1]]
    raise TypeError(
        f"{type(network).__name__} is not a FrEIA network: pass a SequenceINN or a GraphINN"
    )


def _conditions(network: Any) -> int:
    """Return how many conditions the network takes, at most one."""
    if hasattr(network, "condition_nodes"):
        count = len(network.condition_nodes)
    else:
        count = len({place for place in network.conditions if place is not None})
    if count > 1:
        raise TypeError(
            f"{type(network).__name__} has {count} conditions, but a row has one context: join "
            "them in the network"
        )
    return count
