"""What a flow says of itself before any row is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from plmcmc.flows import Flow, finite_rows, sample
from plmcmc.target import Warp

LATENTS = 4096
SAMPLES = 512
FIT_STEPS = 150
# Nats per entry that a warp must gain over a plain normal; less is what noise would gain.
LEAST_GAIN = 0.02
_BOUND = 1.5
# Standard errors that estimates may be off by, the largest of thousands included.
CHANCE = 5.0


class Survey(NamedTuple):
    """What the pullback sampler needs to know of a flow.

    Attributes:
        information: Fisher information of each latent coordinate.
        warp: coordinates in which each entry's marginal is nearly standard normal.
        spread: deviation of each entry.
    """

    information: Tensor
    warp: Warp
    spread: Tensor


def survey(flow: Flow, rows: int, generator: Generator) -> Survey:
    """Ask a flow about its latents and its data, `rows` rows at a time."""
    information = latent_information(flow, rows, [generator] * max(1, LATENTS // rows))
    with torch.no_grad():
        parts = [sample(flow, rows, generator) for _ in range(max(1, SAMPLES // rows))]
    samples = _finite(torch.cat(parts))
    return Survey(information, marginal_warp(samples), spread_of(samples))


def _finite(samples: Tensor) -> Tensor:
    return samples[finite_rows(samples)].double()


def spread_of(samples: Tensor) -> Tensor:
    """Return each entry's deviation, in float64, and not 0 for a constant one."""
    samples = samples.double()
    spread = samples.std(0).maximum(1e-6 * samples.mean(0).abs())
    return torch.where(spread > 0, spread, 1.0)


def latent_information(flow: Flow, rows: int, generators: Sequence[Generator]) -> Tensor:
    """Estimate the Fisher information of each latent coordinate: the mean squared score.

    1 for a normal, 1/3 for a logistic. Where it vanishes (a uniform base), 1 stands in. Coordinates
    that differ by no more than chance get their common mean.

    Args:
        flow: the flow.
        rows: how many latents to draw with each generator.
        generators: where to draw from.
    """
    squares = []
    for generator in generators:
        with torch.enable_grad():
            z = flow.latent_sample(rows, generator).detach().requires_grad_()
            squares.append(_score(flow, z).flatten(1).double().square())
    pooled = torch.cat(squares)
    information, error = pooled.mean(0), pooled.std(0) / len(pooled) ** 0.5
    common = information.mean()
    if bool(((information - common).abs() <= CHANCE * error).all()):
        information = common.expand_as(information)
    return torch.where(information > 1e-6, information, 1.0)


def _score(flow: Flow, z: Tensor) -> Tensor:
    """Return the derivative of the latent log-density; zeros if it does not depend on `z`."""
    total = flow.latent_log_prob(z).sum()
    if not total.requires_grad:
        return torch.zeros_like(z)
    (score,) = torch.autograd.grad(total, z, allow_unused=True, materialize_grads=True)
    return score


def marginal_warp(samples: Tensor) -> Warp:
    """Fit a warp to each entry of `samples` `(rows, *event)` by maximum likelihood.

    Entries that a normal describes as well keep a plain shift and scale.
    """
    samples = _finite(samples)
    mean, scale = samples.mean(0), spread_of(samples)
    whitened = (samples - mean) / scale
    fitted = _fitted(whitened)
    plain = Warp(*(torch.tensor(n).double().expand_as(mean).to(mean) for n in (0, 1, 0, 1)))
    gain = _likelihood(whitened, fitted) - _likelihood(whitened, plain)
    pairs = zip(fitted.parts, plain.parts, strict=True)
    inner = Warp(*(torch.where(gain > LEAST_GAIN, one, other) for one, other in pairs))
    return Warp(mean + scale * inner.shift, scale * inner.scale, inner.skew, inner.tail)


def _fitted(whitened: Tensor) -> Warp:
    """Climb the likelihood of all entries at once."""
    middle = whitened.median(0).values
    spread = (whitened.quantile(0.75, 0) - whitened.quantile(0.25, 0)).clamp(min=1e-3) / 1.35
    free = torch.zeros(4, *middle.shape, dtype=torch.float64, device=middle.device)
    with torch.enable_grad():
        free.requires_grad_()
        optimizer = torch.optim.Adam([free], lr=0.05)
        for _ in range(FIT_STEPS):
            loss = -_likelihood(whitened, _warp_at(free, middle, spread)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return _warp_at(free.detach(), middle, spread)


def _warp_at(free: Tensor, middle: Tensor, spread: Tensor) -> Warp:
    tail = (_BOUND * torch.tanh(free[3] / _BOUND)).exp()
    return Warp(middle + spread * free[0], spread * free[1].exp(), free[2], tail)


def _likelihood(y: Tensor, warp: Warp) -> Tensor:
    """Return the mean log-density of each entry, up to a constant."""
    v = warp.inward(y)
    return (-0.5 * v.square() - warp.outward(v)[1]).mean(0)
