"""Draws from our generator, of libraries that know torch's global one only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator


@contextmanager
def seeded_by(generator: Generator) -> Iterator[None]:
    """Seed torch's global generator from `generator`, and put it back after."""
    devices = [generator.device] if generator.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        _global_generator(generator.device).manual_seed(seed_from(generator))
        yield


def seed_from(generator: Generator) -> int:
    """Return a seed drawn from a generator."""
    return int(torch.randint(2**62, (), generator=generator, device=generator.device))


def _global_generator(device: torch.device) -> Generator:
    """Return torch's own generator of one device; `torch.manual_seed` would seed all of them."""
    if device.type != "cuda":
        return torch.default_generator
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]
