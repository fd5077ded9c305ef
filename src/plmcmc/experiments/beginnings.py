"""Where chains begin, for pictures: what `sample` starts from, drawn by the same streams."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.chains import Start
from plmcmc.flows import while_sampling
from plmcmc.posterior import Conditional, Method
from plmcmc.rng import Streams, blocks_of, rows_of_a_block


def first_completions(
    posterior: Conditional, method: Method, start: Start, chains: int, seed: int
) -> NDArray[np.floating]:
    """Return `(chains, rows, *event)`: starts of all chains, with the observed values put in.

    Every row must have a hole, as rows without are left out before blocks are cut.
    """
    data = posterior.data
    rows = torch.arange(data.rows, device=data.values.device)
    numbers = method.footprint(data.values[0].numel(), posterior.width, chains)
    blocks = blocks_of(data.rows, rows_of_a_block(rows.device, numbers))
    streams = Streams.of_blocks(seed, "start", blocks, chains=chains, device=rows.device)
    batch = posterior.batch(rows, chains)
    with torch.no_grad(), while_sampling():
        y = batch.data.project(start(batch.flow, batch.data, streams))
    return y.unflatten(0, (-1, chains)).movedim(1, 0).cpu().numpy()
