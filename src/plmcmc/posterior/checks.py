"""What `condition` and its `Conditional` are given, checked before any work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator, Tensor

from plmcmc.data import DataError, Incomplete
from plmcmc.data.incomplete import array_of
from plmcmc.flows import BrokenFlow, ContextualFlow, Flow, check_flow, finite_rows, home, sample
from plmcmc.flows.protocol import Home, cooled

if TYPE_CHECKING:
    from plmcmc.posterior.problem import Problem

CONTEXT_MISSING = "this flow needs a context: pass context=..., one per row"


def checked_home(flow: object) -> Home:
    """Return where a flow computes; refuse where or how chains cannot be run."""
    check_mode()
    where = home(flow)
    if where.dtype not in (torch.float32, torch.float64):
        raise BrokenFlow(
            f"the flow computes in {where.dtype}, too coarse to accept or reject by: call "
            "flow.float(); condition(..., precision='bfloat16') makes a NICE or RealNVP faster"
        )
    return where


def check_mode() -> None:
    """Refuse torch's inference mode, whose tensors have no derivatives ever after."""
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            "torch.inference_mode is on, in which no derivatives can be taken: leave it, or use "
            "torch.no_grad() instead"
        )


def checked_contexts(flow: Flow | ContextualFlow, context: Any, data: Incomplete) -> Tensor | None:
    """Return contexts as the flow computes, one for each row, or None if it wants none."""
    if not isinstance(flow, ContextualFlow):
        if context is not None:
            raise DataError("this flow takes no context: leave context out")
        return None
    if context is None:
        raise DataError(CONTEXT_MISSING)
    try:
        # A copy: the caller may go on to write into theirs.
        numbers = array_of(context, "context").astype(np.float64)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"context must hold numbers, one row per row of x: {error}") from error
    contexts = torch.as_tensor(numbers).to(data.values)
    if contexts.ndim == 0 or len(contexts) != data.rows:
        shape = tuple(contexts.shape)
        raise DataError(f"context must have one row per row of x: {data.rows}, got shape {shape}")
    wrong = ~finite_rows(contexts)
    if bool(wrong.any()):
        raise DataError(f"context is NaN or infinite at row {int(wrong.nonzero()[0])}")
    return contexts


def check_match(problem: Problem, *, check: bool) -> None:
    """Compare the flow's own samples with the rows' shape, and test the flow on them."""
    try:
        _check_match(problem, check=check)
    except RuntimeError as error:
        if problem.context is None:
            raise
        shape = tuple(problem.context.shape)
        raise DataError(f"the flow cannot take contexts of shape {shape}: {error}") from error


def _check_match(problem: Problem, *, check: bool) -> None:
    rows = torch.arange(min(8, problem.data.rows), device=problem.data.values.device)
    flow = problem.flow_for(rows, 1)
    with torch.no_grad():
        source = Generator(rows.device).manual_seed(0)
        own = cooled(lambda heat: sample(flow, len(rows), source, temperature=heat))
    if not bool(torch.isfinite(own).all()):
        raise BrokenFlow("the flow's own samples are NaN or infinite: to_data overflows everywhere")
    expected, got = tuple(own.shape[1:]), tuple(problem.data.values.shape[1:])
    if expected != got:
        raise DataError(f"the flow's rows have shape {expected}; those of x have {got}")
    if check:
        # Loose: a flow that rounds a little still samples well; one that disagrees does not.
        check_flow(flow, own, tolerance=1e-2, jacobian=False)


def checked_rows(x: Any, data: Incomplete) -> Tensor:
    """Return rows of the data's shape as the flow computes, without holes in common."""
    full = Incomplete.of(x, dtype=data.values.dtype, device=data.values.device)
    if full.values.shape != data.values.shape:
        shapes = tuple(data.values.shape), tuple(full.values.shape)
        raise DataError(f"x must have the shape of the data, {shapes[0]}; got {shapes[1]}")
    gaps = ~(full.observed | data.observed).flatten(1).all(1)
    if bool(gaps.any()):
        raise DataError(f"x has missing values at row {int(gaps.nonzero()[0])}: pass complete rows")
    return full.values


def first_saved(checkpoint: str | Path | None) -> Path | None:
    """Return a chunk's file of the run saved in this directory, or None."""
    if checkpoint is None:
        return None
    return next(iter(sorted(Path(checkpoint).glob("rows-*.safetensors"))), None)


def check_whole(least: int, **numbers: int) -> None:
    """Refuse what is no whole number, or too small a one."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TypeError(f"{name} must be a whole number; got {number!r}")
        if number < least:
            bound = "must not be negative" if least == 0 else f"must be at least {least}"
            raise ValueError(f"{name} {bound}; got {number}")


def without_density(named: str) -> BrokenFlow:
    """Return the error for rows, named in words, whose chains have nowhere to start."""
    return BrokenFlow(
        f"the flow's density is NaN or zero where chains of {named} start: check those rows' "
        "observed values against the data the flow was trained on, or choose a different start"
    )
