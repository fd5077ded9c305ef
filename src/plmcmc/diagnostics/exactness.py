"""A self-test of exactness, in seconds: draws on this machine against answers known otherwise.

Chains of a small flow are right or wrong by what torch, its matrix library and its random numbers
do here.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import kstest, norm
from torch import Tensor

from plmcmc.chains import Given
from plmcmc.flows import Linear, RealNVP, log_prob, sample
from plmcmc.posterior import condition

# Chance that a machine on which all is well fails one of the comparisons.
FALSE_ALARM = 1e-4
CHAINS = 1000
# Fixed: what passes on a machine passes again.
SEED = 0
# Steps that tune, and steps after them: chains are exact only once their steps are frozen.
WARMUP, FROZEN = 24, 10
ROWS = 1000
# Bounds and steps of the integral, and how small the density must be at the bounds.
REACH, STEPS, NEGLIGIBLE = 12.0, 4001, 1e-8
# Of what is seen in the two comparisons.
SEEN = (1.1, 0.7)


class Finding(NamedTuple):
    """The result of one comparison.

    Attributes:
        name: of the comparison.
        passed: whether the draws are as they should be.
        words: what was compared, with numbers.
        seconds: how long it took.
    """

    name: str
    passed: bool
    words: str
    seconds: float


def self_test(device: str | torch.device = "cpu") -> list[Finding]:
    """Return the results of three comparisons on a device; takes under a minute on one core."""
    where = torch.device(device)
    comparisons: dict[str, Callable[[torch.device], tuple[bool, str]]] = {
        "closed form": _closed_form,
        "quadrature": _quadrature,
        "invariance": _invariance,
    }
    found = []
    for name, compare in comparisons.items():
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                # One draw of each chain tells no R-hat; the comparison tells more.
                warnings.simplefilter("ignore", UserWarning)
                passed, words = compare(where)
        except Exception as problem:
            # Where something is broken anything may be raised: that is what was asked.
            passed, words = False, f"{type(problem).__name__}: {problem}"
        found.append(Finding(name, passed, words, time.perf_counter() - began))
    return found


def _closed_form(device: torch.device) -> tuple[bool, str]:
    """Compare means and covariances of a Gaussian's conditional with the formula."""
    mean = torch.tensor([0.5, -1.0, 0.2]).double()
    covariance = torch.tensor([[1.0, 0.6, 0.3], [0.6, 1.5, -0.4], [0.3, -0.4, 0.8]]).double()
    flow = Linear.of_moments(mean, covariance).to(device)
    found = _drawn(flow, [np.nan, np.nan, SEEN[0]])[:, :2]
    gain = (covariance[:2, 2:] / covariance[2, 2]).numpy()
    expected = mean[:2].numpy() + gain[:, 0] * (SEEN[0] - float(mean[2]))
    spread = covariance[:2, :2].numpy() - gain @ covariance[2:, :2].numpy()
    scores = (found.mean(0) - expected) / np.sqrt(np.diag(spread) / len(found))
    # Of normals, the variance of a sample covariance (Wishart).
    outer = np.outer(np.diag(spread), np.diag(spread))
    of_covariance = (np.cov(found.T) - spread) / np.sqrt((outer + spread**2) / len(found))
    worst = float(np.abs([*scores, *of_covariance[np.tril_indices(2)]]).max())
    limit = float(norm.isf(FALSE_ALARM / 2 / 5))
    words = f"a Gaussian's conditional: worst of 5 moments {worst:.2f} standard errors off"
    return worst < limit, f"{words} (limit {limit:.2f})"


def _quadrature(device: torch.device) -> tuple[bool, str]:
    """Compare the conditional of a nonlinear flow with its density, added up."""
    flow = _shaken(2).to(device)
    grid = np.linspace(-REACH, REACH, STEPS)
    rows = torch.tensor(np.stack([np.full_like(grid, SEEN[1]), grid], 1), device=device)
    with torch.no_grad():
        density = log_prob(flow, rows).exp().cpu().numpy()
    inside = max(density[0], density[-1]) < NEGLIGIBLE * density.max()
    cdf = np.cumsum(density) / density.sum()
    found = _drawn(flow, [SEEN[1], np.nan])[:, 1]
    chance = float(kstest(found, lambda values: np.interp(values, grid, cdf)).pvalue)
    words = f"a nonlinear flow's conditional: p-value {chance:.3g} against a numerical integral"
    return bool(inside and chance > FALSE_ALARM), f"{words} (limit {FALSE_ALARM:g})"


def _invariance(device: torch.device) -> tuple[bool, str]:
    """Start chains in their target, at rows of the flow's own: their moments must stay."""
    flow = _shaken(3).to(device)
    source = torch.Generator(device).manual_seed(SEED)
    with torch.no_grad():
        start = sample(flow, ROWS, source)
    truth = start.cpu().numpy()
    observed = np.random.default_rng(SEED).random(truth.shape) < 0.5
    drawn = condition(flow, truth, observed).sample(
        1,
        chains=1,
        start=Given(start),
        warmup=WARMUP,
        thin=FROZEN,
        random_state=SEED,
        progress=False,
    )
    # Bounded, so that tails cannot spoil normality.
    spread = truth.std(0)
    scores = _scores(np.tanh(truth / spread), np.tanh(drawn.values[0, 0] / spread), ~observed)
    worst, limit = np.abs(scores).max(), norm.isf(FALSE_ALARM / 2 / len(scores))
    words = f"{ROWS} chains started from their target: worst of {len(scores)} moments {worst:.2f}"
    return bool(worst < limit), f"{words} standard errors off (limit {limit:.2f})"


def _scores(
    before: NDArray[np.float64], after: NDArray[np.float64], holes: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return by how many standard errors moments of the holes have moved, row by row compared."""
    scores = []
    for j, rows in enumerate(holes.T):
        b, a = before[rows], after[rows]
        change = a[:, j : j + 1] * a - b[:, j : j + 1] * b
        change = np.concatenate([change, a[:, j : j + 1] - b[:, j : j + 1]], 1)
        scores.append(change.mean(0) / (change.std(0) / len(change) ** 0.5))
    return np.concatenate(scores)


def _drawn(flow: torch.nn.Module, row: list[float]) -> NDArray[np.float64]:
    """Return a draw of each of many chains, independent of each other: `(chains, columns)`."""
    drawn = condition(flow, np.array([row])).sample(
        1, chains=CHAINS, warmup=WARMUP, thin=FROZEN, random_state=SEED, progress=False
    )
    return drawn.values[:, 0, 0].astype(np.float64)


def _shaken(features: int) -> RealNVP:
    """Return a flow whose volume varies from place to place, in float64."""
    flow = RealNVP(features, couplings=4, width=16, random_state=1).double()
    source = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in flow.parameters():
            noise: Tensor = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.add_(0.9 * noise / max(1, parameter.shape[-1]) ** 0.5)
    return flow.eval()
