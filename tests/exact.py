"""The invariance test: a chain started in its target must stay there.

Draw `x ~ p` from the flow, hide some of it, draw `y_O ~ q` apart: the row `(x_M; y_O)` is then a
draw from the projected latent target, and `x` itself one from the conditional target. After any
number of steps, moments of the holes must not have drifted, nor those of the log-density, which see
a wrong ratio first. No burn-in, no reference sampler.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor, nn

from plmcmc.data import Incomplete
from plmcmc.flows import NICE, Flow, Linear, RealNVP, log_prob, sample
from plmcmc.rng import Streams
from plmcmc.target import NormalAuxiliary

FEATURES = 5
ROWS = 8000
# Of the flow that is cheap.
MANY_ROWS = 24_000
STEPS = 60
# Wide: a tight auxiliary pins y_O to x_O, and a density taken at y instead of at its projection
# would pass unseen.
AUXILIARY = NormalAuxiliary(2.0)
FALSE_ALARM = 1e-4


def shaken(flow, scale=0.4, seed=3):
    """Move a flow's weights off zero, where its conditioners start."""
    source = torch.Generator().manual_seed(seed)
    flow = flow.double()
    with torch.no_grad():
        for parameter in flow.parameters():
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.add_(scale * noise / max(1, parameter.shape[-1]) ** 0.5)
    return flow.eval()


def _linear():
    source = torch.Generator().manual_seed(1)
    half = torch.randn(FEATURES, 2 * FEATURES, generator=source, dtype=torch.float64)
    return Linear.of_moments(torch.ones(FEATURES).double(), half @ half.T / FEATURES)


class Bent(nn.Module):
    """Each column's mean and width follow from the one before: strongly curved, and cheap.

    Kernels reject much, and ratios that are slightly wrong matter; rows can be many.
    """

    def __init__(self):
        super().__init__()
        # Says that the flow is one of float64.
        self.register_buffer("kind", torch.zeros(1, dtype=torch.float64))

    def to_latent(self, x):
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        mean, log_scale = self._shape(before)
        return (x - mean) * (-log_scale).exp(), -log_scale.sum(1)

    def to_data(self, z):
        columns, last, log_det = [], torch.zeros_like(z[:, 0]), 0.0
        for own in z.T:
            mean, log_scale = self._shape(last)
            last = mean + log_scale.exp() * own
            columns.append(last)
            log_det = log_det + log_scale
        return torch.stack(columns, 1), log_det

    def latent_log_prob(self, z):
        return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)

    def latent_sample(self, rows, generator):
        return torch.randn(rows, FEATURES, generator=generator, dtype=torch.float64)

    def _shape(self, before):
        return 1.2 * torch.sin(1.5 * before), 0.7 * torch.sin(before + 0.5)


FLOWS = {
    "linear": _linear,
    "nice-logistic": lambda: shaken(
        NICE(FEATURES, couplings=3, depth=2, width=16, latent="logistic", random_state=0), 0.7
    ),
    # Volume varies from place to place: without it, log-determinants could be dropped unseen.
    "realnvp": lambda: shaken(RealNVP(FEATURES, couplings=4, width=16, random_state=0), 0.7),
    "bent": Bent,
}


class Begun(NamedTuple):
    """Rows whose chains start in their target."""

    flow: Flow
    data: Incomplete
    truth: Tensor
    start: Tensor


def begin(flow: Flow, *, rows: int | None = None, seed: int = 0) -> Begun:
    """Draw rows, hide entries at random, and draw what a latent chain holds at the others."""
    rows = rows or (MANY_ROWS if isinstance(flow, Bent) else ROWS)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        truth = sample(flow, rows, source)
    observed = torch.rand(truth.shape, generator=source) < 0.5
    noise = AUXILIARY.scale * torch.randn(truth.shape, generator=source, dtype=truth.dtype)
    data = Incomplete(torch.where(observed, truth, 0.0), observed)
    return Begun(flow, data, truth, torch.where(observed, truth + noise, truth))


class Drift(NamedTuple):
    """How far moments moved, in standard errors, and how far that may be."""

    worst: float
    limit: float
    displacement: float


def drift(begun: Begun, kernel, *, steps: int = STEPS, seed: int = 1, streams=None) -> Drift:
    """Run a kernel from its target and compare paired moments of the holes."""
    streams = streams or Streams.of_rows(seed, "test", len(begun.truth))
    with torch.no_grad():
        state = kernel.init(begun.start)
        for _ in range(steps):
            state, _ = kernel.step(state, streams)
        both = torch.stack([begun.truth, state.completion])
        heights = torch.stack([log_prob(begun.flow, rows) for rows in both])
    before, after = (both / begun.truth.std(0)).numpy()
    holes = ~begun.data.observed.numpy()
    heights = (heights - heights[0].mean()) / heights[0].std()
    scores = np.concatenate(
        [_scores(before, after, holes), _scores(*heights[..., None].numpy(), holes.any(1)[:, None])]
    )
    moved = np.abs(after - before)[holes].mean()
    limit = norm.isf(FALSE_ALARM / (2 * len(scores)))
    return Drift(float(np.abs(scores).max()), float(limit), float(moved))


def _scores(before, after, holes):
    """Standard scores of bounded moments: bounded, so that heavy tails cannot spoil normality."""
    before, after = np.tanh(before), np.tanh(after)
    scores = []
    for j in range(before.shape[1]):
        rows = holes[:, j]
        b, a = before[rows], after[rows]
        pairs = [(b[:, j], a[:, j]), (b[:, j] ** 2, a[:, j] ** 2)]
        pairs += [(b[:, j] * b[:, i], a[:, j] * a[:, i]) for i in range(b.shape[1]) if i != j]
        for old, new in pairs:
            change = new - old
            scores.append(change.mean() / (change.std() / len(change) ** 0.5))
    return np.array(scores)
