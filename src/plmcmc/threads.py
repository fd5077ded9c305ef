"""How many threads to work with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def cores() -> int:
    """Return how many cores this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Work with one thread, unless OMP_NUM_THREADS says how many.

    Small batches run no faster on more threads, and far slower where cores are shared: threads then
    wait for each other at every small product. Of wide tables they also add in another order, so
    that the same seed would lead elsewhere on another machine.
    """
    import torch

    before = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
