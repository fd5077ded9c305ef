"""What plmcmc's own flows share: flat rows, a latent density, a name to be saved under."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor, nn

from plmcmc.flows.latents import LATENTS
from plmcmc.flows.protocol import home

if TYPE_CHECKING:
    from collections.abc import Iterator


class Configured(nn.Module):
    """A part of a flow that can be saved.

    Attributes:
        name: that it is saved under.
        config: the constructor's arguments, as JSON can hold them; with the tensors of
            `state_dict()` they rebuild it.
    """

    name: str
    config: dict[str, Any]

    def extra_repr(self) -> str:
        """Show the configuration: layers alone would hide the latents, or a bound."""
        return ", ".join(f"{key}={value}" for key, value in self.config.items())


class LatentFlow(Configured, ABC):
    """A flow of `features` columns whose latents are independent."""

    def __init__(self, features: int, latent: str) -> None:
        super().__init__()
        if features < 1:
            raise ValueError(f"features must be at least 1; got {features}")
        if latent not in LATENTS:
            raise ValueError(f"latent must be one of {sorted(LATENTS)}; got {latent!r}")
        self.features = features
        self.latent = latent
        self.config = {"features": features, "latent": latent}

    @abstractmethod
    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""

    @abstractmethod
    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the latents in float64."""
        return LATENTS[self.latent].log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return latents drawn from their density."""
        return LATENTS[self.latent].sample((rows, self.features), generator, home(self).dtype)


@contextmanager
def seeded(random_state: int | None) -> Iterator[None]:
    """Draw initial weights from a seed, and leave torch's global generator as it was.

    None draws from the global generator, as torch's own modules do.
    """
    if random_state is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which seeds the GPUs' generators too.
        torch.default_generator.manual_seed(random_state)
        yield


def total(terms: Tensor) -> Tensor:
    """Sum the log-scales of each row in float64."""
    return terms.sum(-1, dtype=torch.float64)


def keep_inverse(module: nn.Module, order: str, back: str) -> None:
    """Keep, beside a buffer of column orders, the places that they took columns from.

    It is found again whenever a state is loaded, and is no part of one.
    """
    module.register_buffer(back, getattr(module, order).argsort(-1), persistent=False)
    module.register_load_state_dict_post_hook(partial(_find_inverse, order, back))


def check_order(order: Tensor, name: str) -> None:
    """Refuse what is no order of columns: draws would lose some, and double others."""
    places = torch.arange(order.shape[-1], device=order.device)
    if not bool((order.sort(-1).values == places).all()):
        raise ValueError(f"{name} is not a permutation of {order.shape[-1]} columns")


def _find_inverse(order: str, back: str, module: nn.Module, _: Any) -> None:
    check_order(getattr(module, order), order)
    getattr(module, back).copy_(getattr(module, order).argsort(-1))
