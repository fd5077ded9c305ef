"""How many threads to work with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


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
