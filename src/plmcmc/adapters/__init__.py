"""In: another library's flow. Out: a `Flow`. Each bridge is imported only when it is needed."""

from __future__ import annotations

from typing import Any

from plmcmc.flows import ContextualFlow, Flow


def adapt(obj: Any) -> Flow | ContextualFlow:
    """Return `obj` as a `Flow`: plmcmc's own, zuko's, or any object with a flow's four methods.

    A zuko flow built with `context=...` gives a `ContextualFlow`.

    Raises:
        TypeError: when `obj` is nothing that can be adapted.
    """
    if isinstance(obj, type):
        # A class has the methods, too, but nobody to call them on.
        raise TypeError(f"{obj.__name__} is a class: pass an object made of it")
    if isinstance(obj, Flow | ContextualFlow):
        return obj
    # A user may have derived a class of their own from zuko's.
    if any(kind.__module__.split(".")[0] == "zuko" for kind in type(obj).__mro__):
        from plmcmc.adapters.zuko import adapt_zuko

        return adapt_zuko(obj)
    raise TypeError(
        f"{type(obj).__module__}.{type(obj).__name__} is not a flow that plmcmc knows: pass one of "
        f"plmcmc's or zuko's, or an object with the methods to_latent, to_data, latent_log_prob "
        f"and latent_sample (see plmcmc.flows.Flow)"
    )


__all__ = ["adapt"]
