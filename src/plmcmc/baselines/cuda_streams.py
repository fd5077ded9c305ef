"""Works that a GPU does side by side: small kernels of one leave most of it idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

T = TypeVar("T")


class Abreast:
    """Does works that do not need each other; one after the other where there is no GPU.

    What they read must be kept until they are waited for: in their gradients, too, each goes on in
    its own stream.

    Args:
        count: of works.
        device: where they are done.
    """

    def __init__(self, count: int, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self.streams = [torch.cuda.Stream(device) for _ in range(count)] if on_gpu else []

    def __call__(self, works: Iterable[Callable[[], T]]) -> list[T]:
        """Return what the works return; they begin in their order."""
        if not self.streams:
            return [work() for work in works]
        main, found = torch.cuda.current_stream(self.streams[0].device), []
        for work, stream in zip(works, self.streams, strict=True):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                found.append(work())
        for stream in self.streams:
            main.wait_stream(stream)
        return found
