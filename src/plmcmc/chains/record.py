"""What is kept of a run. Burn-in and thinning live here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from plmcmc.kernels import Info


class Recorder(Protocol):
    """Sees every step; its tensors are saved with the checkpoint."""

    def record(self, step: int, state: Any, info: Any) -> None:
        """Look at step number `step` (from 1)."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Which steps are kept: after `burn_in`, every `thin`-th, `draws` in all."""

    burn_in: int
    draws: int
    thin: int = 1

    @property
    def steps(self) -> int:
        """How many steps that takes."""
        return self.burn_in + self.draws * self.thin

    def place(self, step: int) -> int | None:
        """Return the place of step number `step` among the kept ones, or None."""
        after = step - self.burn_in
        return after // self.thin - 1 if after > 0 and after % self.thin == 0 else None


class Completions:
    """Keeps the scheduled completions as `values` `(draws, rows, *event)`, in memory of the CPU."""

    def __init__(self, schedule: Schedule, like: Tensor) -> None:
        self.schedule = schedule
        self.values = torch.zeros((schedule.draws, *like.shape), dtype=like.dtype)

    def record(self, step: int, state: Any, info: Any) -> None:
        """Keep the completion if its turn has come."""
        del info
        place = self.schedule.place(step)
        if place is not None:
            self.values[place].copy_(state.completion)

    def tensors(self) -> dict[str, Tensor]:
        """Return the kept completions."""
        return {"completions": self.values}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over completions kept before."""
        self.values.copy_(tensors["completions"])


class Acceptance:
    """Counts acceptances after the burn-in, and the passes of the whole run and of the burn-in."""

    def __init__(self, schedule: Schedule, like: Tensor) -> None:
        self.schedule = schedule
        self.accepted = torch.zeros(len(like), dtype=torch.float64, device=like.device)
        self.passes = self.warmup_passes = 0

    def record(self, step: int, state: Any, info: Info) -> None:
        """Count one step; nothing here waits for the device."""
        del state
        self.passes += info.passes
        if step > self.schedule.burn_in:
            self.accepted += info.accepted
        else:
            self.warmup_passes += info.passes

    @property
    def rate(self) -> Tensor:
        """Share of the kept part's steps that moved, `(rows,)`."""
        return self.accepted / max(1, self.schedule.steps - self.schedule.burn_in)

    def tensors(self) -> dict[str, Tensor]:
        """Return the counts."""
        return {
            "accepted": self.accepted,
            "passes": torch.tensor(self.passes),
            "warmup_passes": torch.tensor(self.warmup_passes),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over counts kept before."""
        self.accepted.copy_(tensors["accepted"])
        self.passes = int(tensors["passes"])
        self.warmup_passes = int(tensors["warmup_passes"])
