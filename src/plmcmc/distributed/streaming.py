"""One process that does all tasks, one after the other: memory holds one part at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plmcmc.distributed.work_plan import Line, Order, Task
from plmcmc.distributed.worker import Worker


def streamed(order: Order, tasks: Sequence[Task]) -> Iterator[Line]:
    """Have tasks done here."""
    worker = Worker(order)
    for task in tasks:
        yield from worker.work(task)
