"""MisGAN's steps by batches of the images; a GPU replays them, since launching costs it more."""

from __future__ import annotations

import warnings
from collections import Counter

import torch
from torch import Tensor

from plmcmc.baselines.misgan_game import Game
from plmcmc.flows.passes import captured
from plmcmc.flows.passes.captured import Outputs, Replay
from plmcmc.training.ascent import CaptureWarning

# Steps of a kind that are run before it is recorded: by then all that is allocated once is.
FIRST = 3


class Rounds:
    """Steps of critics and of generators, on the images themselves; none waits for the device.

    On a GPU they are recorded once and replayed, if they can be; the optimizers must then be
    `capturable`.

    Args:
        game: whose steps they are.
        x: images `(rows, 1, height, width)`.
        observed: bool, same shape; True = seen.
        size: rows of a batch, the same for all.

    Attributes:
        loss: The critics' losses, added up; whoever reads it sets it back.
    """

    def __init__(self, game: Game, x: Tensor, observed: Tensor, size: int) -> None:
        self.game, self.x, self.observed = game, x, observed
        self.capturable = x.is_cuda
        # What a replay reads, and what it adds to.
        self.batch = torch.zeros(size, dtype=torch.int64, device=x.device)
        self.loss = torch.zeros((), device=x.device)
        self.replays: dict[str, Replay] = {}
        self.taken: Counter[str] = Counter()

    def critics(self, batch: Tensor) -> None:
        """Step all critics once by these rows, and add up their losses."""
        self._step("critics", batch)

    def generators(self, batch: Tensor) -> None:
        """Step all generators once by these rows."""
        self._step("generators", batch)

    def _step(self, side: str, batch: Tensor) -> None:
        self.batch.copy_(batch)
        self.taken[side] += 1
        if side in self.replays:
            self.replays[side]()
        elif self.capturable and self.taken[side] >= FIRST:
            self._recorded(side)
        else:
            self._work(side)

    def _work(self, side: str) -> Outputs:
        x, observed = self.x[self.batch], self.observed[self.batch]
        if side == "critics":
            self.loss += self.game.step_critics(x, observed)
        else:
            self.game.step_generators(x, observed)
        return ()

    def _recorded(self, side: str) -> None:
        """Step once, and record the step: the rehearsal is a step like any other."""
        captured.rehearse(lambda: self._work(side))
        source = self.game.source
        before = source.get_state()
        try:
            _, self.replays[side] = captured.record(lambda: self._work(side), [source])
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            # A failed recording spoils the generator, and replays would go on with the old one.
            self.game.renew(before)
            self.replays.clear()
            self.capturable = False
            warnings.warn(
                "could not capture MisGAN's steps in a CUDA graph; launching their operations one "
                f"by one ({error!s:.200})",
                CaptureWarning,
                stacklevel=2,
            )
