"""Weights that networks multiply by in bfloat16, beside the ones that learn.

Steps are too small for bfloat16 to add up, so weights are kept as they are; what rounds them for
every product, as `torch.autocast` does, costs a GPU as much as the products.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from plmcmc.flows import NICE, RealNVP


class Shadows:
    """A flow that shares all with another but weights of its conditioners: of these it has copies.

    Args:
        flow: the one that learns.
        learned: its weights that are copied.
    """

    def __init__(self, flow: Any, learned: Sequence[Tensor]) -> None:
        self.learned = list(learned)
        self.copies = [nn.Parameter(own.detach().bfloat16()) for own in self.learned]
        # What a copy of the flow is to find instead of making its own.
        shared: dict[int, Any] = {id(own): own for own in (*flow.parameters(), *flow.buffers())}
        shared |= {id(own): copy for own, copy in zip(self.learned, self.copies, strict=True)}
        self.flow = deepcopy(flow, shared)

    @classmethod
    def of(cls, flow: Any) -> Shadows | None:
        """Return the shadows of a flow, if it has conditioners of ours that learn.

        Those are of `NICE` and `RealNVP`: what others do to weights is not known.
        """
        ours = [part for part in flow.modules() if isinstance(part, NICE | RealNVP)]
        layers = [own for part in ours for own in part.modules() if isinstance(own, nn.Linear)]
        weights = [own for layer in layers for own in layer.parameters() if own.requires_grad]
        learned = [own for own in weights if own.dtype == torch.float32]
        return cls(flow, learned) if learned else None

    @torch.no_grad()
    def renew(self) -> None:
        """Copy the weights that learn."""
        for copy, own in zip(self.copies, self.learned, strict=True):
            copy.copy_(own)

    def begin(self, *, training: bool) -> None:
        """Forget the slopes of the last step, and be in the mode of the flow that learns."""
        self.flow.train(training)
        for copy in self.copies:
            copy.grad = None

    def in_place_of(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Return the copies of these weights, and those of which there is none."""
        copies = {id(own): copy for own, copy in zip(self.learned, self.copies, strict=True)}
        return [copies.get(id(own), own) for own in weights]

    def hand_over(self) -> None:
        """Give the slopes of the copies to the weights that learn."""
        for copy, own in zip(self.copies, self.learned, strict=True):
            own.grad = None if copy.grad is None else copy.grad.float()
