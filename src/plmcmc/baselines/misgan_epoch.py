"""An epoch of MisGAN's training as a step of the one loop, so that it can be resumed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from plmcmc.baselines.epochs import Epochs
from plmcmc.baselines.misgan_rounds import Rounds
from plmcmc.rng import Streams
from plmcmc.training import TrainingError
from plmcmc.training.resuming import fill, moments_of


class MisganEpoch:
    """Steps a game through one epoch.

    Args:
        rounds: its steps, by batches of the images.
        critic_steps: steps of the critics for one of the generators.
        learning_rate: what to lower if losses are lost.
    """

    def __init__(self, rounds: Rounds, critic_steps: int, learning_rate: float) -> None:
        self.rounds, self.game = rounds, rounds.game
        self.critic_steps, self.learning_rate = critic_steps, learning_rate

    def step(self, state: Epochs, streams: Streams) -> tuple[Epochs, str]:
        """Run one epoch."""
        done = int(state.done)
        with torch.enable_grad():
            loss = self._train(done)
        # A recording that failed has left the game another one, which is to be saved.
        streams.generators[0] = self.game.source
        if not math.isfinite(loss):
            raise TrainingError(
                f"the critics' loss is NaN or infinite in epoch {done + 1}: lower "
                f"learning_rate (now {self.learning_rate})"
            )
        return Epochs(state.done + 1), f"critics' loss {loss:.3f}"

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, and the moments of both optimizers."""
        tensors = {f"now.{key}": own for key, own in self.game.players.state_dict().items()}
        for side in ("critics", "generators"):
            moments = moments_of(getattr(self.game, side))
            tensors |= {f"{side}.{key}": own for key, own in moments.items()}
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        fill(self.tensors(), tensors, self.game.players)

    def _train(self, done: int) -> float:
        """Return the mean of the critics' losses in one more epoch."""
        x, size, source = self.rounds.x, len(self.rounds.batch), self.game.source
        order = torch.randperm(len(x), generator=source, device=x.device)
        # Batches of one size: what is left over comes up in another epoch.
        batches = order[: len(x) // size * size].split(size)
        for taken, batch in enumerate(batches, done * len(batches) + 1):
            self.rounds.critics(batch)
            if taken % self.critic_steps == 0:
                self.rounds.generators(batch)
        # The one time in an epoch that the device is waited for.
        loss = float(self.rounds.loss) / len(batches)
        self.rounds.loss.zero_()
        return loss
