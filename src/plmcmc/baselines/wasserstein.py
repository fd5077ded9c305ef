"""What a critic of two sets of images loses: the Wasserstein distance, and a penalty of its slopes.

Gulrajani et al. (2017).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

Critic = Callable[[Tensor], Tensor]
"""Scores `(rows,)` of rows `(rows, *event)`."""


def critic_loss(
    critic: Critic, real: Tensor, fake: Tensor, penalty: float, source: Generator
) -> Tensor:
    """Return what a critic is to make small: fake scores less real ones, and its penalty.

    Args:
        critic: scores rows.
        real: `(rows, *event)`, to be scored high.
        fake: same shape, to be scored low.
        penalty: weight of the gradient penalty.
        source: where between real and fake rows the slopes are taken.
    """
    shape, like = (len(real), *[1] * (real.ndim - 1)), {"dtype": real.dtype, "device": real.device}
    share = torch.rand(shape, generator=source, **like)
    slopes = gradient_penalty(critic, real, fake, share)
    # At once: half of the launches.
    low, high = critic(torch.cat([fake, real])).chunk(2)
    return low.mean() - high.mean() + penalty * slopes


def gradient_penalty(critic: Critic, real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Return the mean of `(|slope| - 1)^2`, at `share` of the way from fake rows to real ones.

    Args:
        critic: scores rows, each by itself.
        real: `(rows, *event)`.
        fake: same shape.
        share: in [0, 1], broadcasts over the events.
    """
    with torch.enable_grad():
        between = torch.lerp(fake.detach(), real.detach(), share).requires_grad_()
        (slopes,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        return (torch.linalg.vector_norm(slopes.flatten(1), dim=1) - 1).square().mean()
