"""Processes that train one flow together, as `torchrun` starts them; one alone is a team, too.

Rows are shared out, and chains of a row stay with its process. Weights are the same everywhere:
slopes are averaged at every step, and all else that steps them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from os import environ
from typing import Any

import torch
import torch.distributed as dist
from torch import Generator, Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Team:
    """One process of a team.

    Attributes:
        rank: its number.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def here(cls) -> Team:
        """Return this process as one of the group that torch.distributed was told of.

        Raises:
            ValueError: if it was told of none.
        """
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError(
                "distributed=True needs a process group: start the processes with torchrun, and "
                "call torch.distributed.init_process_group first; or leave it out"
            )
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    @property
    def beside(self) -> int:
        """How many of the team share this one's machine, itself included, as torchrun says."""
        return int(environ.get("LOCAL_WORLD_SIZE", "1")) if self.size > 1 else 1

    def share(self, count: int, rank: int | None = None) -> range:
        """Return which of so many rows, in order, are a process's own: this one's, by default."""
        rank = self.rank if rank is None else rank
        return range(count * rank // self.size, count * (rank + 1) // self.size)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over the team of what each has."""
        if self.size == 1:
            return value
        total = value.clone()
        dist.all_reduce(total)
        return total / self.size

    def gathered(self, own: Tensor, sizes: list[int]) -> Tensor:
        """Return what all have, one after another.

        Args:
            own: this process's.
            sizes: how long everyone's is.
        """
        if self.size == 1:
            return own
        # What is sent must be equally long.
        padded = own.new_zeros(max(sizes), *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def agreed(self, number: int) -> int:
        """Return the leader's number."""
        if self.size == 1:
            return number
        told = torch.tensor(number, dtype=torch.int64)
        dist.broadcast(told, 0)
        return int(told)

    def check_same(self, what: str, description: str) -> None:
        """Refuse to go on if the leader has something else.

        Raises:
            ValueError: saying what differs.
        """
        own = int.from_bytes(sha256(description.encode()).digest()[:7], "little")
        if self.agreed(own) != own:
            raise ValueError(
                f"process {self.rank} was given a different {what} than process 0: all processes "
                "must be given the same"
            )

    def source(self, main: Generator) -> Generator:
        """Return where this process's random numbers come from, until it asks again.

        The leader draws from `main` itself, others from sources that hang on where its is: whoever
        keeps that can go on with another number of processes.
        """
        if self.size == 1:
            return main
        state = main.get_state()
        dist.broadcast(state, 0)
        if self.leads:
            return main
        seed = sha256(state.numpy().tobytes() + self.rank.to_bytes(4, "little")).digest()
        return Generator(main.device).manual_seed(int.from_bytes(seed[:4], "little"))

    def averaging(self, work: nn.Module) -> Any:
        """Return a module whose weights' slopes are the mean of what all of the team find."""
        return work if self.size == 1 else DistributedDataParallel(work)

    def wait(self) -> None:
        """Wait until all of the team have come here."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def torchrun_team(device: str) -> Iterator[Team]:
    """Join the group of processes that `torchrun` started; without it, be alone.

    Args:
        device: where this process will work.
    """
    if "TORCHELASTIC_RUN_ID" not in environ:
        yield Team()
        return
    on_gpus = device.startswith("cuda")
    if on_gpus:
        # "cuda" is another one for each process of a machine.
        torch.cuda.set_device(int(environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpus else "gloo")
    try:
        yield Team.here()
    finally:
        # Garbage may still hold the group: its threads would outlive it, and end the process with
        # an abort at its exit, after all is done.
        gc.collect()
        dist.destroy_process_group()
