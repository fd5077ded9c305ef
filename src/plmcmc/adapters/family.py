"""Flows of other libraries that wait for the rows' contexts."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from plmcmc.flows import Flow


class Bridge(Protocol):
    """A flow, not yet usable, that can be given contexts."""

    def with_context(self, context: Tensor) -> Flow:
        """Return the same flow, with row i conditioned on `context[i]`."""
        ...


class Family(nn.Module):
    """A bridge without its contexts, as a `ContextualFlow`."""

    def __init__(self, flow: Bridge) -> None:
        super().__init__()
        # Any: a module, so that its parameters are found.
        self.flow: Any = flow

    def given(self, context: Tensor) -> Flow:
        """Return the flow whose row i is conditioned on `context[i]`."""
        return self.flow.with_context(context)
