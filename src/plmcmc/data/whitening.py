"""Mean and deviation of what was observed, to whiten by."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from plmcmc.data.incomplete import Incomplete


class Moments(NamedTuple):
    """Observed mean and standard deviation of every entry of a row, each of shape `(*event)`."""

    mean: Tensor
    scale: Tensor


def observed_moments(data: Incomplete, *, floor: float = 0.0) -> Moments:
    """Return mean and standard deviation of each column over the rows where it is observed.

    A column observed at most once is only centred (scale 1; mean 0 if never observed), and so is a
    constant one unless `floor` is given. Pass the result to `plmcmc.flows.Whiten`.

    Args:
        data: the rows.
        floor: smallest scale to return, so that nearly constant pixels are not magnified; also used
            for constant ones, for which a scale of 1 would be far too wide.

    Example:
        >>> observed_moments(Incomplete.of([[1.0, 7.0], [3.0, 7.0], [float("nan"), 7.0]]))
        Moments(mean=tensor([2., 7.]), scale=tensor([1., 1.]))
    """
    seen, values = data.observed, data.values.double()
    times = seen.sum(0)
    count = times.clamp(min=1)
    mean = torch.where(seen, values, 0.0).sum(0) / count
    # Around the mean, in float64: sums of squares lose a small spread on a large offset.
    scale = (torch.where(seen, values - mean, 0.0).square().sum(0) / count).sqrt()
    # A spread that is all rounding is none.
    scale = torch.where(scale > 1e-12 * mean.abs(), scale, 0.0)
    unknown = (times < 2) | ((scale == 0) & (floor <= 0))
    scale = torch.where(unknown, 1.0, scale).clamp(min=floor)
    return Moments(mean.to(data.values.dtype), scale.to(data.values.dtype))
