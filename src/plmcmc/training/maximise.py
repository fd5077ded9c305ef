"""The M-step: one epoch of stochastic gradient ascent on the likelihood of completed rows."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.optim import Optimizer

from plmcmc.flows import Flow, log_prob


def maximise(
    flow: Flow,
    x: Tensor,
    optimizer: Optimizer,
    *,
    batch_size: int,
    generator: Generator,
    noise: float = 0.0,
    clip: float | None = None,
) -> Tensor:
    """Run one epoch over `x` and return the mean loss (minus log-likelihood per row).

    Args:
        flow: the flow whose parameters `optimizer` holds.
        x: complete rows.
        optimizer: any torch optimizer.
        batch_size: rows per step.
        generator: shuffles the rows, and draws the noise.
        noise: deviation of Gaussian noise added to the rows afresh, a regulariser.
        clip: largest norm of a gradient.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    order = torch.randperm(len(x), generator=generator, device=generator.device).to(x.device)
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    with torch.enable_grad():
        for rows in order.split(batch_size):
            batch = x[rows]
            if noise > 0:
                fresh = torch.randn(
                    batch.shape, generator=generator, dtype=x.dtype, device=generator.device
                )
                batch = batch + noise * fresh.to(x.device)
            loss = -log_prob(flow, batch).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()
            # Summed on the device: reading it here would wait for every step.
            total += loss.detach() * len(rows)
    return total / len(x)
