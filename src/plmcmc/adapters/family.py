"""Flows of other libraries, which may wait for the rows' contexts."""

from __future__ import annotations

from copy import copy
from typing import Any

from torch import Tensor, nn

from plmcmc.flows import Flow


class Bridge(nn.Module):
    """What bridges share: a context for each row, or none.

    Attributes:
        context: of the rows that are given, in their order; None for an unconditional flow.
    """

    context: Tensor | None = None

    def with_context(self, context: Tensor) -> Any:
        """Return the same flow, with row i conditioned on `context[i]`."""
        given = copy(self)
        given.context = context
        return given

    def context_of(self, rows: int) -> Tensor | None:
        """Return the contexts of the first `rows` rows, if there are any."""
        return None if self.context is None else self.context[:rows]


class Family(nn.Module):
    """A bridge without its contexts, as a `ContextualFlow`."""

    def __init__(self, flow: Bridge) -> None:
        super().__init__()
        self.flow = flow

    def given(self, context: Tensor) -> Flow:
        """Return the flow whose row i is conditioned on `context[i]`."""
        return self.flow.with_context(context)
