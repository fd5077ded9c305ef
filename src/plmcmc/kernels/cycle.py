"""One kernel after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from plmcmc.kernels.base import Info, Kernel, State
from plmcmc.rng import Streams


@dataclass(frozen=True)
class Cycle:
    """Steps each kernel once; all must share one kind of state.

    A row counts as accepted if any of them moved it; the log-ratio is the first kernel's. Kernels
    that each leave the target invariant do so one after the other, too.
    """

    kernels: Sequence[Kernel]

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse kernels that would make the whole biased."""
        if not self.kernels or not all(kernel.exact for kernel in self.kernels):
            raise ValueError("a cycle needs one or more exact kernels")

    def init(self, y: Tensor) -> State:
        """Return the state of full rows `y`."""
        return self.kernels[0].init(y)

    def step(self, state: State, streams: Streams) -> tuple[State, Info]:
        """Move every row once with each kernel."""
        infos = []
        for kernel in self.kernels:
            state, info = kernel.step(state, streams)
            infos.append(info)
        accepted = torch.stack([info.accepted for info in infos]).any(0)
        passes = sum(info.passes for info in infos)
        return state, Info(accepted, infos[0].log_ratio, passes)
