"""The M-step: one epoch of stochastic gradient ascent on the likelihood of completed rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from plmcmc.training.ascent import Ascent


def maximise(
    ascent: Ascent,
    x: Tensor,
    *,
    batch_size: int,
    generator: Generator,
    noise: float = 0.0,
    before: Callable[[float], None] | None = None,
) -> Tensor:
    """Run one epoch over `x` and return the mean loss (minus log-likelihood per row).

    Args:
        ascent: steps the flow.
        x: complete rows.
        batch_size: rows per step.
        generator: shuffles the rows, and draws the noise.
        noise: deviation of Gaussian noise added to the rows afresh, a regulariser.
        before: told before each step what share of the epoch is over.
    """
    ascent.renew()
    order = torch.randperm(len(x), generator=generator, device=generator.device).to(x.device)
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for done, rows in enumerate(order.split(batch_size)):
        if before is not None:
            before(done * batch_size / len(x))
        batch = x[rows]
        if noise > 0:
            fresh = torch.randn(
                batch.shape, generator=generator, dtype=x.dtype, device=generator.device
            )
            batch = batch + noise * fresh.to(x.device)
        # Summed on the device: reading it here would wait for every step.
        total += ascent(batch) * len(rows)
    return total / len(x)
