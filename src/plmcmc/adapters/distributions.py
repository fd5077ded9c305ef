"""`TransformedDistribution`, torch's or Pyro's: transforms from noise to data, and a base."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor, nn

from plmcmc.adapters.bases import DistributionBase
from plmcmc.adapters.bridge import Bridge, Family, as_flow, per_row
from plmcmc.adapters.refusal import refuse_moving_layers
from plmcmc.flows import BrokenFlow, Flow


class TransformedFlow(Bridge):
    """A `TransformedDistribution`, or Pyro's conditional one with contexts, as a `Flow`.

    A row is a sample: what torch calls the batch belongs to it.
    """

    def __init__(self, distribution: Any) -> None:
        super().__init__()
        self.distribution = distribution
        self.layers = nn.ModuleList(
            layer for transform in distribution.transforms for layer in _modules(transform)
        )
        self.base = None
        if not hasattr(distribution, "condition"):
            self.base = DistributionBase(distribution.base_dist)
            # Transforms without weights say nothing of precision and device: the base does.
            self.register_buffer("where", _none_of(distribution.base_dist), persistent=False)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        rows = x
        # Transforms may keep their last pair, and know it by identity: a view is another tensor,
        # and what was computed without derivatives is not handed out where they are needed.
        x, log_det = x.view_as(x), x.new_zeros(len(x))
        for transform in reversed(self._distribution(len(x)).transforms):
            z = transform.inv(x)
            log_det = log_det - _log_det(transform, z, x, rows)
            # Inverses clamp: what no latent leads to would seem to have a density.
            log_det = torch.where(_within(transform, x), log_det, -torch.inf)
            x = z
        return x, log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        rows = z
        z, log_det = z.view_as(z), z.new_zeros(len(z))
        for transform in self._distribution(len(z)).transforms:
            x = transform(z)
            log_det = log_det + _log_det(transform, z, x, rows)
            z = x
        return z, log_det

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the base."""
        return self._base(len(z)).log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws from the base."""
        return self._base(rows).sample(rows, generator)

    def _base(self, rows: int) -> DistributionBase:
        return self.base or DistributionBase(self._distribution(rows).base_dist)

    def _distribution(self, rows: int) -> Any:
        context = self.context_of(rows)
        return self.distribution if context is None else self.distribution.condition(context)


def bridge(distribution: Any) -> Flow | Family:
    """Return a distribution as a `Flow`, or as a `ContextualFlow` if it has to be conditioned."""
    for transform in distribution.transforms:
        if not getattr(transform, "bijective", True):
            raise BrokenFlow(
                f"{type(transform).__name__} is not a bijection, but every layer must be one"
            )
    adapted = TransformedFlow(distribution)
    refuse_moving_layers(adapted)
    conditional = hasattr(distribution, "condition")
    return as_flow(adapted, type(distribution).__name__, contextual=conditional)


def _none_of(base: Any) -> Tensor:
    """Return no draws, in the precision and on the device of a base."""
    try:
        return base.sample((0,))
    # Of a mixture torch draws at least one.
    except RuntimeError:
        with torch.random.fork_rng():
            return base.sample((1,))[:0]


def _log_det(transform: Any, z: Tensor, x: Tensor, rows: Tensor) -> Tensor:
    """Return `log |det dx/dz|`, `(rows,)`."""
    terms = torch.as_tensor(transform.log_abs_det_jacobian(z, x), device=z.device)
    domain = getattr(transform, "domain", None)
    if domain is not None:
        # One term for all rows may be handed over: it says itself over how many axes it is.
        terms = terms.expand(z.shape[: z.ndim - domain.event_dim])
    return per_row(terms, rows)


def _within(transform: Any, x: Tensor) -> Tensor:
    """Return which rows a transform can lead to."""
    codomain = getattr(transform, "codomain", None)
    if codomain is None:
        return torch.ones(len(x), dtype=torch.bool, device=x.device)
    return codomain.check(x).reshape(len(x), -1).all(1)


def _modules(transform: Any) -> Iterator[nn.Module]:
    """Yield the modules in a transform, which torch may have wrapped."""
    if isinstance(transform, nn.Module):
        yield transform
        return
    inner = [getattr(transform, name, None) for name in ("_inv", "base_transform", "transform")]
    for part in [*inner, *getattr(transform, "parts", ())]:
        # A transform and its inverse may know each other; the inverse's class is torch's own.
        if part is not None and not isinstance(
            part, torch.distributions.transforms._InverseTransform
        ):
            yield from _modules(part)
