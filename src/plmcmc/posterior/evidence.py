"""How likely is what was observed? `log p(x_O)`, the marginal likelihood of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.adaptation import Warmup
from plmcmc.adaptation.annealing import anneal
from plmcmc.chains import Unconditional, progress_bar
from plmcmc.flows import log_prob, while_sampling
from plmcmc.kernels import Hamiltonian, NonFiniteStart
from plmcmc.posterior.checks import check_mode, check_whole, without_density
from plmcmc.posterior.memory import in_chunks, rows_at_once
from plmcmc.posterior.methods import Pullback
from plmcmc.posterior.quality_warnings import named_rows, warn_of_evidence
from plmcmc.rng import Block, RandomState, Streams, rows_of_a_block, seed_of

if TYPE_CHECKING:
    from plmcmc.posterior.problem import Problem


# Walkers must start wherever chains have been, in all modes.
METHOD = Pullback(tuning=Warmup(way=1.0, jumps=False))
# Less than any logarithm of a weight, yet finite: it may be subtracted from itself.
SMALLEST = -1e300


class Evidence(NamedTuple):
    """`log p(x_O)` of every row.

    Attributes:
        log_evidence: `(rows,)`.
        standard_error: `(rows,)`, of the logarithm; 0 where nothing is missing.
        passes: flow passes per walker.
    """

    log_evidence: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    passes: int


def evidence(
    problem: Problem,
    particles: int,
    stages: int,
    random_state: RandomState,
    progress: bool | None,
) -> Evidence:
    """Estimate the marginal likelihood of what each row has seen."""
    check_mode()
    check_whole(2, particles=particles)
    check_whole(1, stages=stages)
    data, seed = problem.data, seed_of(random_state)
    with torch.no_grad(), while_sampling():
        # A row with nothing missing is its own evidence.
        complete = data.observed.flatten(1).all(1)
        found = torch.full((data.rows,), torch.nan, dtype=torch.float64, device=complete.device)
        if bool(complete.any()):
            rows = complete.nonzero().flatten()
            found[rows] = log_prob(problem.flow_for(rows, 1), data.values[rows])
        error = torch.zeros_like(found)
        holes = (~complete).nonzero().flatten()
        passes = [0]
        with progress_bar("Evidence of rows", len(holes), show=progress) as report:

            def work(blocks: list[Block]) -> None:
                rows = holes[blocks[0].start : blocks[-1].stop]
                weights, spent = _annealed(problem, rows, blocks, particles, stages, seed)
                found[rows], error[rows] = _pooled(weights)
                passes.append(spent)

            if len(holes):
                numbers = METHOD.footprint(data.values[0].numel(), problem.width, particles)
                at_once = rows_at_once(numbers, data.values)
                block = rows_of_a_block(data.values.device, numbers)
                in_chunks(
                    len(holes), at_once, work, lambda rows: report(rows, ""), block_rows=block
                )
    result = Evidence(found.cpu().numpy(), error.cpu().numpy(), max(passes))
    warn_of_evidence(result.standard_error, particles)
    return result


def _annealed(
    problem: Problem,
    rows: Tensor,
    blocks: list[Block],
    particles: int,
    stages: int,
    seed: int,
) -> tuple[Tensor, int]:
    batch = problem.batch(rows, particles)
    streams = {
        purpose: Streams.of_blocks(seed, purpose, blocks, chains=particles, device=rows.device)
        for purpose in ("start", "warmup", "annealing")
    }
    try:
        y = Unconditional()(batch.flow, batch.data, streams["start"])
        kernel, state, spent = METHOD.begin(batch, y, None, streams["warmup"])
    except NonFiniteStart as error:
        lost = named_rows(int(rows[place // particles]) for place in error.places)
        raise without_density(lost) from error
    if not isinstance(kernel, Hamiltonian):
        raise TypeError(f"annealing needs a Hamiltonian kernel, not {type(kernel).__name__}")
    weights, passes = anneal(kernel, state, streams["annealing"], stages=stages)
    return weights, spent + passes


def _pooled(log_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log of the mean weight of each row, and its standard error."""
    count = log_weights.shape[1]
    # Where no walker weighs anything, minus infinity; the error is then not known.
    largest = log_weights.amax(1, keepdim=True).clamp(min=SMALLEST)
    weights = (log_weights - largest).exp()
    mean = weights.mean(1)
    return mean.log() + largest[:, 0], weights.std(1) / count**0.5 / mean
