"""A monotone map of every entry to a coordinate in which its marginal is nearly normal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus


@dataclass(frozen=True)
class Warp:
    """`y = shift + scale sinh((asinh(v) + skew) / tail)`, entry by entry (Jones and Pewsey, 2009).

    An entry that is mostly near one value and at times far off, such as a pixel that a stroke may
    reach, is narrow there and wide here: no fixed step suits both. In `v` it is neither.

    Attributes:
        shift: `(*event)`.
        scale: `(*event)`, positive.
        skew: `(*event)`, 0 for none.
        tail: `(*event)`, positive; 1 is normal, less is heavier.
    """

    shift: Tensor
    scale: Tensor
    skew: Tensor
    tail: Tensor

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """All four, in their order."""
        return self.shift, self.scale, self.skew, self.tail

    def to(self, like: Tensor) -> Warp:
        """Return the same in the dtype and on the device of `like`."""
        return Warp(*(part.to(like) for part in self.parts))

    def outward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the entries `y` and `log dy/dv` of each."""
        angle = (torch.asinh(v) + self.skew) / self.tail
        log_cosh = angle.abs() + softplus(-2 * angle.abs()) - math.log(2)
        log_slope = self.scale.log() - self.tail.log() + log_cosh - 0.5 * torch.log1p(v.square())
        return self.shift + self.scale * torch.sinh(angle), log_slope

    def inward(self, y: Tensor) -> Tensor:
        """Return `v`."""
        return torch.sinh(self.tail * torch.asinh((y - self.shift) / self.scale) - self.skew)
