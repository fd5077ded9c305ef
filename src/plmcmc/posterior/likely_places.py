"""Where a row's missing values are likely to be: samples of the flow that are like what is seen."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from plmcmc.chains import Unconditional
from plmcmc.data import Incomplete
from plmcmc.posterior.batch import Batch
from plmcmc.rng import Streams
from plmcmc.target import Warp


def likely_places(batch: Batch, streams: Streams, times: int = 1) -> Iterator[Tensor]:
    """Yield full rows for every place of a batch, several times; of one row, all are different.

    They are the flow's samples most like the row, if the flow is the same for all rows. A family of
    flows has too few samples of any one to choose from: then they are any samples.
    """
    samples = batch.probe.samples if batch.probe.shared else batch.data.values[:0]
    if not len(samples):
        for _ in range(times):
            yield Unconditional()(batch.flow, batch.data, streams)
        return
    own = batch.data.select(slice(None, None, batch.chains))
    count = min(times * batch.chains, len(samples))
    found = alike(samples, own, batch.probe.survey.warp.to(samples), count)
    # More places than samples: the most alike serve again.
    found = found.repeat(1, -(-times * batch.chains // count))[:, : times * batch.chains]
    for part in found.split(batch.chains, 1):
        yield batch.data.near_readings(samples[part.flatten()])


def alike(samples: Tensor, data: Incomplete, warp: Warp, count: int) -> Tensor:
    """Return the numbers of the samples most like what is seen in each row, `(rows, count)`.

    Args:
        samples: `(samples, *event)`.
        data: the rows.
        warp: coordinates in which entries are compared.
        count: how many; the most alike come first.
    """
    places, values = (warp.inward(part).flatten(1).nan_to_num() for part in (samples, data.values))
    # A reading tells as much as an exact value, as far as likeness goes.
    seen = data.observed if data.noise is None else data.observed | (data.noise > 0)
    weight = seen.flatten(1).to(places.dtype)
    # Squared distances, but for what is the same for all samples.
    distance = weight @ places.square().mT - 2 * (values * weight) @ places.mT
    return distance.topk(count, largest=False).indices
