"""An epoch of MIWAE's training as a step of the one loop, so that it can be resumed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from plmcmc.baselines.autoencoder import Autoencoder, bound
from plmcmc.baselines.epochs import Epochs
from plmcmc.flows.passes.captured import replayed
from plmcmc.rng import Streams
from plmcmc.training import TrainingError
from plmcmc.training.optimizers import optimizer_of
from plmcmc.training.resuming import fill, moments_of


class MiwaeEpoch:
    """Steps an autoencoder up its bound for one epoch.

    Args:
        network: the autoencoder.
        x: whitened rows, 0 for what is missing.
        observed: bool, same shape; True = seen.
        source: of all random numbers.
        epochs: how many there will be.
        batch_size: rows per step.
        samples: weighted latents of a row.
        learning_rate: of Adam.

    Attributes:
        bounds: Mean bound of a row in every epoch, nats.
    """

    def __init__(
        self,
        network: Autoencoder,
        x: Tensor,
        observed: Tensor,
        source: Generator,
        *,
        epochs: int,
        batch_size: int,
        samples: int,
        learning_rate: float,
    ) -> None:
        self.network, self.x, self.observed, self.source = network, x, observed, source
        self.batch_size, self.samples, self.learning_rate = batch_size, samples, learning_rate
        self.optimizer = optimizer_of("adam", list(network.parameters()), learning_rate)
        self.bounds = torch.zeros(epochs, dtype=torch.float64)
        # A hundred small kernels: a GPU is slower to launch them than to run them. It climbs once
        # meanwhile, and so before a checkpoint is read: a run that goes on is not a step ahead.
        # What is read goes to where a replay finds it, the generator's state too.
        self.whole = torch.arange(min(batch_size, len(x)), device=x.device)
        self.climb_whole = replayed(self._climb, self.whole, [source])

    def step(self, state: Epochs, streams: Streams) -> tuple[Epochs, str]:
        """Run one epoch."""
        del streams
        done, rows = int(state.done), len(self.x)
        order = torch.randperm(rows, generator=self.source, device=self.x.device)
        gained = torch.zeros((), device=self.x.device)
        for batch in order.split(self.batch_size):
            climb = self.climb_whole if len(batch) == len(self.whole) else self._climb
            gained += climb(batch) * len(batch) / rows
        found = float(gained)
        if not math.isfinite(found):
            raise TrainingError(
                f"the bound is NaN or infinite in epoch {done + 1}: lower learning_rate (now "
                f"{self.learning_rate})"
            )
        self.bounds[done] = found
        return Epochs(state.done + 1), f"bound {found:.3f} nats per row"

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, the optimizer's moments and the history."""
        tensors = {f"now.{key}": own for key, own in self.network.state_dict().items()}
        return tensors | moments_of(self.optimizer) | {"bounds": self.bounds}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        fill(self.tensors(), tensors, self.network)

    @torch.enable_grad()
    def _climb(self, batch: Tensor) -> Tensor:
        """Step once by these rows, and return their bound before."""
        self.optimizer.zero_grad()
        noise = self.network.noise(self.samples, len(batch), self.source)
        found = self.network.weighted(self.x[batch], self.observed[batch], noise)
        score = bound(found.log_weights).mean()
        (-score).backward()
        self.optimizer.step()
        return score.detach()
