"""Does the auxiliary density bully the chain? The paper's last appendix (E.4).

Follow a chain with one auxiliary and ask, proposal by proposal, how likely another auxiliary would
have overturned its decision, given the same uniform number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.chains import Start, Unconditional, progress_bar, start_of
from plmcmc.flows import choose_rows
from plmcmc.kernels import Metropolis as MetropolisKernel
from plmcmc.kernels.base import choose, decide
from plmcmc.posterior import methods
from plmcmc.posterior.batch import Method
from plmcmc.posterior.problem import problem_of
from plmcmc.rng import RandomState, Streams, seed_of
from plmcmc.target import Auxiliary, FlatAuxiliary, ProjectedLatentTarget


@dataclass(frozen=True, eq=False)
class Decisions:
    """Probabilities, per proposal number, averaged over all chains.

    Attributes:
        accepted_overturned: probability that an accepted proposal would have been rejected; NaN
            where none was accepted.
        rejected_overturned: probability that a rejected proposal would have been accepted; NaN
            where none was rejected.
        acceptance: share of chains that accepted their proposal.
    """

    accepted_overturned: NDArray[np.float64]
    rejected_overturned: NDArray[np.float64]
    acceptance: NDArray[np.float64]


def decision_study(
    flow: Any,
    x: Any,
    observed: Any = None,
    context: Any = None,
    *,
    method: str | Method = "metropolis",
    other: Auxiliary | None = None,
    proposals: int = 1000,
    chains: int = 100,
    start: Start | None = None,
    random_state: RandomState = None,
    progress: bool | None = None,
) -> Decisions:
    """Return how often a different auxiliary density would overturn a chain's decisions.

    Args:
        flow: as for `plmcmc.condition`.
        x: rows with missing entries.
        observed: True = observed; if not given, NaN marks missing entries.
        context: one per row, for a conditional flow.
        method: the method whose chains are followed, in latent space; by default the paper's, with
            an auxiliary density of scale 1e-3.
        other: the auxiliary density to compare with; by default the flat one (the paper's infinite
            scale).
        proposals: number of proposals to follow.
        chains: number of chains per row.
        start: where chains start; by default, as in the paper, at unconditional samples of the
            flow.
        random_state: a seed.
        progress: show a bar; by default on a terminal only.
    """
    if proposals < 1 or chains < 1:
        raise ValueError(f"proposals and chains must be at least 1; got {proposals} and {chains}")
    problem = problem_of(flow, x, observed, context)
    rows = torch.arange(problem.data.rows, device=problem.data.values.device)
    batch = problem.batch(rows, chains)
    chosen = methods.method_of(method)
    seed, options = seed_of(random_state), {"chains": chains, "device": rows.device}
    streams = Streams.of_rows(seed, "decisions", len(rows), **options)
    shape = tuple(problem.data.values.shape)
    begin = start_of(start or Unconditional(projected=False), rows, chains, shape)
    counted = np.zeros((proposals, 4))
    with progress_bar("Decisions", proposals, show=progress) as report, torch.no_grad():
        origin = Streams.of_rows(seed, "start", len(rows), **options)
        y = begin(batch.flow, batch.data, origin)
        tuning = Streams.of_rows(seed, "warmup", len(rows), **options)
        kernel, state, _ = chosen.begin(batch, y, None, tuning)
        if not isinstance(kernel, MetropolisKernel):
            raise TypeError(
                f"the study needs a Metropolis-Hastings kernel, not {type(kernel).__name__}"
            )
        study = _Study(kernel, other or FlatAuxiliary())
        decoded = study.decode(state.position)
        for proposal in range(proposals):
            state, decoded, counts = study.step(state, decoded, streams)
            counted[proposal] = counts.cpu().numpy()
            report(proposal + 1, "")
    return _averaged(counted)


@dataclass(frozen=True)
class _Study:
    """A Metropolis-Hastings kernel whose every decision is put to another auxiliary."""

    kernel: MetropolisKernel
    other: Auxiliary

    @property
    def target(self) -> ProjectedLatentTarget:
        target = self.kernel.target
        if not isinstance(target, ProjectedLatentTarget):
            raise TypeError("only a chain in latent space has an auxiliary density to study")
        return target

    def decode(self, position: Tensor) -> Tensor:
        return self.target.flow.to_data(position)[0]

    def step(self, state: Any, decoded: Tensor, streams: Streams) -> tuple[Any, Tensor, Tensor]:
        """Take one step; also return accepted and rejected counts and their overturned shares."""
        proposed, log_ratio = self.kernel.propose(state, streams)
        # A third pass, for the observed part that the target does not keep: this is a study.
        new = self.decode(proposed.position)
        log_other = log_ratio + self._swap(new) - self._swap(decoded)
        accepted, log_ratio = decide(log_ratio, streams)
        ours, theirs = (
            _acceptance(r) for r in (log_ratio, torch.nan_to_num(log_other, -torch.inf))
        )
        # With the same uniform u: P(u >= theirs | u < ours), and P(u < theirs | u >= ours).
        lost = (1 - theirs / ours).clamp(min=0)[accepted].sum()
        won = ((theirs - ours) / (1 - ours)).clamp(min=0)[~accepted].sum()
        counts = torch.stack([accepted.sum(), lost, (~accepted).sum(), won])
        return choose(accepted, proposed, state), choose_rows(accepted, new, decoded), counts

    def _swap(self, y: Tensor) -> Tensor:
        """Return the log of the other auxiliary over our own."""
        target = self.target
        return self.other.log_prob(y, target.data) - target.auxiliary.log_prob(y, target.data)


def _acceptance(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(max=0).exp()


def _averaged(counted: NDArray[np.float64]) -> Decisions:
    accepted, lost, rejected, won = counted.T
    with np.errstate(invalid="ignore"):
        return Decisions(lost / accepted, won / rejected, accepted / (accepted + rejected))
