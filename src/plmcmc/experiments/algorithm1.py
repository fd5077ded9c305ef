"""Algorithm 1 as experiments run it: where its chains begin, go, and end."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.chains import Start
from plmcmc.experiments.study import Place
from plmcmc.flows import while_sampling
from plmcmc.posterior import Conditional, Draws, Method, condition
from plmcmc.posterior.conditional import problem_in
from plmcmc.rng import Streams, blocks_of, rows_of_a_block

Rows = NDArray[np.floating]


def progression(
    posterior: Conditional,
    method: Method,
    start: Start,
    part: str,
    place: Place,
    *,
    proposals: int,
    every: int,
    chains: int,
    seed: int,
) -> tuple[Draws, Rows]:
    """Return states after every so many proposals, and where first chains began.

    A run that was stopped goes on, by what is kept under the part's name.
    """
    draws = posterior.sample(
        proposals // every,
        thin=every,
        warmup=0,
        chains=chains,
        method=method,
        start=start,
        random_state=seed,
        progress=place.progress,
        checkpoint=place.checkpoint(part),
        checkpoint_every=every,
    )
    return draws, first_completions(posterior, method, start, chains, seed)[0]


def last_completions(
    flow: Any,
    rows: Rows,
    method: str | Method,
    start: Start | None,
    place: Place,
    *,
    proposals: int,
    chains: int,
    seed: int,
    precision: str = "float32",
    compiled: bool = False,
) -> NDArray[np.float64]:
    """Return `(chains, rows, columns)`: where chains of rows with NaN end, in the rows' own units.

    They walk in whitened units, as in training: the auxiliary's deviation is one of those.
    """
    mean, scale = whitening_of(flow)
    options = {"precision": precision, "compiled": compiled}
    draws = condition(flow.flow, (rows - mean) / scale, **options).sample(
        1,
        chains=chains,
        warmup=0,
        thin=proposals,
        method=method,
        start=start,
        random_state=seed,
        progress=place.progress,
    )
    return draws.values[:, 0] * scale + mean


def whitening_of(flow: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and scale that a flow's rows are whitened by, as its first step."""
    first = flow.chain[0]
    mean, scale = (own.double().cpu().numpy() for own in (first.mean, first.scale))
    return mean, scale


def first_completions(
    posterior: Conditional, method: Method, start: Start, chains: int, seed: int
) -> Rows:
    """Return `(chains, rows, *event)`: starts of all chains, with the observed values put in.

    Every row must have a hole, as rows without are left out before blocks are cut.
    """
    problem = problem_in(posterior)
    data = problem.data
    rows = torch.arange(data.rows, device=data.values.device)
    numbers = method.footprint(data.values[0].numel(), problem.width, chains)
    blocks = blocks_of(data.rows, rows_of_a_block(rows.device, numbers))
    streams = Streams.of_blocks(seed, "start", blocks, chains=chains, device=rows.device)
    batch = problem.batch(rows, chains)
    with torch.no_grad(), while_sampling():
        y = batch.data.project(start(batch.flow, batch.data, streams))
    return y.unflatten(0, (-1, chains)).movedim(1, 0).cpu().numpy()
