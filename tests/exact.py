"""The invariance test: a chain started in its target must stay there.

Draw `x ~ p` from the flow, hide some of it, draw `y_O ~ q` apart: the row `(x_M; y_O)` is then a
draw from the projected latent target, and `x` itself one from the conditional target. After any
number of steps, moments of the holes must not have drifted. No burn-in, no reference sampler.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from plmcmc.data import Incomplete
from plmcmc.flows import NICE, Flow, Linear, RealNVP, sample
from plmcmc.rng import Streams
from plmcmc.target import NormalAuxiliary

FEATURES = 5
ROWS = 8000
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


FLOWS = {
    "linear": _linear,
    "nice-logistic": lambda: shaken(
        NICE(FEATURES, couplings=3, depth=2, width=16, latent="logistic", random_state=0), 0.7
    ),
    # Volume varies from place to place: without it, log-determinants could be dropped unseen.
    "realnvp": lambda: shaken(RealNVP(FEATURES, couplings=4, width=16, random_state=0), 0.7),
}


class Begun(NamedTuple):
    """Rows whose chains start in their target."""

    data: Incomplete
    truth: Tensor
    start: Tensor


def begin(flow: Flow, *, rows: int = ROWS, seed: int = 0) -> Begun:
    """Draw rows, hide entries at random, and draw what a latent chain holds at the others."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        truth = sample(flow, rows, source)
    observed = torch.rand(truth.shape, generator=source) < 0.5
    noise = AUXILIARY.scale * torch.randn(truth.shape, generator=source, dtype=truth.dtype)
    data = Incomplete(torch.where(observed, truth, 0.0), observed)
    return Begun(data, truth, torch.where(observed, truth + noise, truth))


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
    spread = begun.truth.std(0)
    before, after = ((rows / spread).numpy() for rows in (begun.truth, state.completion))
    scores = _scores(before, after, ~begun.data.observed.numpy())
    moved = np.abs(after - before)[~begun.data.observed.numpy()].mean()
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
