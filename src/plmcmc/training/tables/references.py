"""The Gaussian's conditionals of a table's rows, one set of matrices for each pattern of holes."""

from __future__ import annotations

import torch
from torch import Tensor

from plmcmc.data import Regions
from plmcmc.target import GaussianReference
from plmcmc.training.tables.gaussian import (
    Conditionals,
    Gaussian,
    conditionals,
    patterns_of,
)


class References:
    """What is known of a table's scores, and how a Gaussian goes on from it.

    Args:
        gaussian: of the scores; or several of them, one for each of the chains of a row.
        regions: where they may lie.
        like: a tensor of the dtype and on the device that are wanted.
    """

    def __init__(self, gaussian: Gaussian, regions: Regions, like: Tensor) -> None:
        self.low, self.high = (torch.as_tensor(end).to(like) for end in regions)
        observed = ~(torch.isinf(self.low) & torch.isinf(self.high))
        patterns, self.which = patterns_of(observed)
        gaussian = Gaussian(*(part.to(like.device) for part in gaussian))
        found = _conditionals(gaussian, patterns)
        self.gain, self.root = found.gain.to(like), found.root.to(like)
        self.mean = gaussian.mean.to(like)

    def of(self, rows: Tensor) -> GaussianReference:
        """Return the reference of these rows."""
        rows = rows.to(self.which.device)
        which = self.which[rows]
        return GaussianReference(
            self.low[rows], self.high[rows], self.mean, self.gain[which], self.root[which]
        )


def _conditionals(gaussian: Gaussian, patterns: Tensor) -> Conditionals:
    """Return the conditionals of a Gaussian, or those of several: of each pattern one of each."""
    if gaussian.mean.dim() == 1:
        return conditionals(gaussian, patterns)
    each = [conditionals(Gaussian(*own), patterns) for own in zip(*gaussian, strict=True)]
    return Conditionals(*(torch.stack(parts, 1) for parts in zip(*each, strict=True)))
