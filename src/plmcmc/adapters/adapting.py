"""`plmcmc.adapt`: which library a flow is of, by the classes it is made of, and its bridge."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import Any

from plmcmc.flows import ContextualFlow, Flow

# By the package that a class comes from: the file with its bridge.
_BRIDGES = {
    "zuko": "zuko",
    "nflows": "nflows",
    "normflows": "normflows",
    "FrEIA": "freia",
    "flowjax": "flowjax",
}
# torch's classes, and Pyro's, by name: everything else of torch is in their packages, too.
_TRANSFORMED = {"TransformedDistribution", "ConditionalTransformedDistribution"}


def adapt(obj: Any, *, base: Any = None) -> Flow | ContextualFlow:
    """Return `obj` as a `Flow`, or as a `ContextualFlow` if it needs a context.

    Args:
        obj: a flow of plmcmc, zuko, nflows, normflows, FrEIA or flowjax, torch's or Pyro's
            `TransformedDistribution`, or any object with the four methods of `plmcmc.flows.Flow`.
        base: density of the latents, for FrEIA's networks, which do not define one: "normal",
            "logistic", or a torch distribution over the flattened latents. There is no default: a
            guess that differs from what the network was trained with would sample a different
            density.

    Raises:
        TypeError: if `obj` cannot be adapted, or `base` is missing or not needed.
        BrokenFlow: if it is a flow that cannot be sampled exactly, with the reason.

    Example:
        >>> import torch
        >>> from torch.distributions import AffineTransform, Normal, TransformedDistribution
        >>> normal = Normal(torch.zeros(3), torch.ones(3))
        >>> flow = adapt(TransformedDistribution(normal, [AffineTransform(1.0, 2.0)]))
        >>> flow.to_latent(torch.ones(1, 3))
        (tensor([[0., 0., 0.]]), tensor([-2.0794]))
    """
    if isinstance(obj, type):
        # A class has the methods, too, but nobody to call them on.
        raise TypeError(f"{obj.__name__} is a class: pass an instance of it")
    own = isinstance(obj, Flow | ContextualFlow)
    bridge = None if own else _bridge_of(obj)
    if base is not None and bridge != "freia":
        raise TypeError(
            f"base is for FrEIA's networks; {type(obj).__name__} needs none: leave it out"
        )
    if own:
        return obj
    if bridge == "freia":
        return import_module("plmcmc.adapters.freia").bridge(obj, base)
    if bridge is not None:
        return import_module(f"plmcmc.adapters.{bridge}").bridge(obj)
    raise TypeError(
        f"{type(obj).__module__}.{type(obj).__name__} is not a flow that plmcmc knows: pass one of "
        f"plmcmc, zuko, nflows, normflows, FrEIA, flowjax, torch.distributions or Pyro, or an "
        f"object with the methods to_latent, to_data, latent_log_prob and latent_sample (see "
        f"plmcmc.flows.Flow){_hint(obj)}"
    )


def _hint(obj: Any) -> str:
    """Say what may have been meant."""
    if isinstance(obj, str | PathLike):
        return ". A saved flow is read by plmcmc.load(path)"
    if hasattr(obj, "flow"):
        return f". Did you mean the .flow of this {type(obj).__name__}?"
    if any(kind.__name__ == "Distribution" for kind in type(obj).__mro__):
        return ". A distribution alone is TransformedDistribution(distribution, [])"
    return ""


def _bridge_of(obj: Any) -> str | None:
    """Return the file that adapts the object, by the classes it is made of."""
    # By name: importing zuko would switch off torch's validation, and importing jax takes seconds.
    for kind in type(obj).__mro__:
        package = kind.__module__.split(".")[0]
        if package in _BRIDGES:
            return _BRIDGES[package]
        if package in ("torch", "pyro") and kind.__name__ in _TRANSFORMED:
            return "distributions"
    return None
