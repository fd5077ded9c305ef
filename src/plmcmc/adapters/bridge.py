"""What bridges to other libraries share: contexts, row by row, and terms as libraries tell them."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

from plmcmc.adapters.refusal import refuse_one_way
from plmcmc.flows import Flow


class Bridge(nn.Module):
    """A flow of another library, with a context for each row or without any.

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


def as_flow(bridge: Any, name: str, *, contextual: bool) -> Flow | Family:
    """Return a bridge as a `Family` if it needs contexts; else itself, if it goes both ways.

    What it adapts is called `name` in refusals.
    """
    if contextual:
        return Family(bridge)
    refuse_one_way(bridge, name)
    return bridge


def per_row(terms: Any, like: Tensor) -> Tensor:
    """Return log-dets `(rows,)` of a number, of one term per row, or of one per entry of `like`."""
    # Layers of constant volume hand over a plain number.
    terms = torch.as_tensor(terms, device=like.device)
    return terms.flatten(1).sum(1) if terms.ndim > 1 else terms.expand(len(like))
