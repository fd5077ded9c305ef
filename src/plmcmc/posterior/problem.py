"""What is asked: a flow and what is seen of rows, checked, and dealt out to methods in batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.adapters import adapt
from plmcmc.data import DataError, Incomplete
from plmcmc.data.frames import Labels, check_order
from plmcmc.data.incomplete import checked
from plmcmc.flows import Compiled, ContextualFlow, Flow, lowered, while_sampling
from plmcmc.posterior.batch import PROBE_ROWS, Batch, Probe
from plmcmc.posterior.checks import CONTEXT_MISSING, check_match, checked_contexts, checked_home

# Columns of a table whose metrics are kept whole.
NARROW = 64


@dataclass(frozen=True, eq=False)
class Problem:
    """A flow, and what is seen of each row.

    Attributes:
        flow: the flow, or a family of flows that takes contexts.
        values: the caller's array.
        data: the same values, in the flow's dtype and on its device.
        context: one per row, or None.
    """

    flow: Flow | ContextualFlow
    values: NDArray[np.floating]
    data: Incomplete
    context: Tensor | None

    def batch(self, rows: Tensor, chains: int) -> Batch:
        """Return some rows, each repeated `chains` times, in the form that methods use."""
        return Batch(
            flow=self.flow_for(rows, chains),
            data=self.data.select(rows).repeat(chains),
            chains=chains,
            most_holes=self.most_holes,
            width=self.width,
            probe=self._probe,
        )

    @cached_property
    def most_holes(self) -> int:
        """Most holes that a row has."""
        return int((~self.data.observed).flatten(1).sum(1).max())

    @property
    def width(self) -> int:
        """The number of entries to which the missing entries of rows are padded."""
        columns = self.data.values[0].numel()
        # All of a narrow table's columns: then files of different rows agree to the last bit.
        return columns if columns <= NARROW else self.most_holes

    @cached_property
    def _probe(self) -> Probe:
        if not isinstance(self.flow, ContextualFlow):
            # The same for any rows: what one gets must not depend on how many others there are.
            return Probe(self.flow, PROBE_ROWS, shared=True)
        count = min(PROBE_ROWS, self.data.rows)
        first = torch.arange(count, device=self.data.values.device)
        return Probe(self.flow_for(first, 1), count, shared=False)

    def flow_for(self, rows: Tensor, chains: int) -> Flow:
        """Return the flow for some rows, each repeated `chains` times, with their contexts."""
        if isinstance(self.flow, ContextualFlow):
            if self.context is None:
                raise DataError(CONTEXT_MISSING)
            return self.flow.given(self.context[rows].repeat_interleave(chains, 0))
        return self.flow


def problem_of(
    flow: Any,
    x: Any,
    observed: Any = None,
    context: Any = None,
    *,
    noise: Any = None,
    precision: str = "float32",
    compiled: bool = False,
    check: bool = True,
) -> Problem:
    """Return the problem that `condition` is given, checked; the arguments are its own."""
    flow = adapt(flow)
    where = checked_home(flow)
    used = lowered(flow, precision)
    if compiled:
        used = _compiled(used)
    for what, other in {"observed": observed, "context": context, "noise": noise}.items():
        check_order(Labels.of(x), other, what)
    values, seen = checked(x, observed)
    data = Incomplete.of(values, seen, noise, dtype=where.dtype, device=where.device)
    contexts = checked_contexts(flow, context, data)
    # A copy: the caller may change theirs between two calls of sample.
    problem = Problem(flow, values.copy(), data, contexts)
    with while_sampling():
        check_match(problem, check=check)
    return replace(problem, flow=used)


def _compiled(flow: Flow | ContextualFlow) -> Flow:
    if isinstance(flow, ContextualFlow):
        raise TypeError("compiled is for flows without contexts: leave it out")
    return Compiled(flow)
