"""MisGAN: generators of images and masks trained on images with holes, and an imputer beside them.

Li, Jiang and Marlin (2019), convolutional, with the settings of the paper's appendix E.1: 500
epochs in batches of 64, tau 0, alpha and beta 0.1, a penalty of 10, 5 steps of the critics for one
of the generators, 128 latents, and an imputer of three hidden layers of as many units as pixels.
The paper's gamma is 0, and is left out. Networks and learning rates, which it does not print, have
the sizes of the public implementation's defaults, which it names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.baselines.epochs import checkpoint_of, run_epochs
from plmcmc.baselines.misgan_epoch import MisganEpoch
from plmcmc.baselines.misgan_game import Game
from plmcmc.baselines.misgan_networks import Players
from plmcmc.baselines.misgan_rounds import Rounds
from plmcmc.baselines.pixels import as_batch, checked_images, device_for
from plmcmc.chains import resumed_seed
from plmcmc.data.incomplete import DataError
from plmcmc.flows.base import seeded
from plmcmc.rng import RandomState, generator, seed_of
from plmcmc.training.refusal import refuse_less_than_one

# Images that are filled at once.
AT_ONCE = 2000


@dataclass(frozen=True)
class MisganImputer:
    """Fills grey images as MisGAN does.

    Attributes:
        latent: Number of latent dimensions of the generators.
        channels: Of the largest images inside generators, and of the critics' first convolution.
        width: Units of the imputer's three hidden layers; None takes one for each pixel.
        tau: Value shown to critics in place of missing pixels.
        alpha: Weight of the image loss in training the mask generator.
        beta: Weight, for the generator of images, of how they look beside completed ones.
        penalty: Weight of the critics' gradient penalty.
        critic_steps: Steps of the critics for one of the generators.
        epochs: Passes over the images.
        batch_size: Images per step; those left over sit out an epoch.
        learning_rate: Of Adam, for generators of images and masks and their critics.
        imputer_learning_rate: For the imputer and its critic.
        random_state: Seed; None takes a new one every time.
        device: Where to compute; None is where the images are.
        progress: Show a bar; by default on a terminal only.
    """

    latent: int = 128
    channels: int = 64
    width: int | None = None
    tau: float = 0.0
    alpha: float = 0.1
    beta: float = 0.1
    penalty: float = 10.0
    critic_steps: int = 5
    epochs: int = 500
    batch_size: int = 64
    learning_rate: float = 1e-4
    imputer_learning_rate: float = 2e-4
    random_state: int | None = None
    device: torch.device | str | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        names = ("latent", "channels", "critic_steps", "epochs", "batch_size")
        refuse_less_than_one(**{name: getattr(self, name) for name in names})
        if self.width is not None:
            refuse_less_than_one(width=self.width)

    def fit(
        self, images: Any, observed: Any = None, *, checkpoint: str | Path | None = None
    ) -> Misgan:
        """Train on images with holes, and return what was trained.

        Args:
            images: `(rows, height, width)`, seen pixels in [0, 1].
            observed: bool, same shape; True = seen. Without it, NaN marks the holes.
            checkpoint: file to save to after epochs and to resume from. After every one, unless
                saving takes more than a twentieth of the time.

        Raises:
            DataError: if the images are invalid.
            CheckpointError: if the checkpoint is damaged, or belongs to a different run.
            TrainingError: if the critics' losses are no longer finite.
        """
        values, seen = checked_images(images, observed)
        size = (values.shape[1], values.shape[2])
        where, seed = device_for(images, self.device), resumed_seed(checkpoint, self.random_state)
        with seeded(seed):
            width = math.prod(size) if self.width is None else self.width
            players = Players(size, self.latent, self.channels, width)
        players.to(where)
        x, shown = as_batch(np.where(seen, values, 0.0), where), as_batch(seen, where)
        rates = ("learning_rate", "imputer_learning_rate")
        names = ("tau", "alpha", "beta", "penalty", *rates)
        rules = {name: getattr(self, name) for name in names}
        game = Game(players, generator(seed, "misgan", device=where), **rules)
        rounds = Rounds(game, x, shown, min(self.batch_size, len(x)))
        epoch = MisganEpoch(rounds, self.critic_steps, self.learning_rate)
        saved = checkpoint_of(checkpoint, self, seed, x, shown)
        run_epochs(epoch, game.source, self, "Training MisGAN", saved)
        return Misgan(players.eval().requires_grad_(False), size, seed)

    def fill(self, images: Any, observed: Any = None) -> NDArray[Any]:
        """Return the images, trained on and with their holes filled."""
        return self.fit(images, observed).fill(images, observed)


@dataclass(frozen=True)
class Misgan:
    """A trained MisGAN, which fills images of the size that it was trained on.

    Attributes:
        players: Its networks.
        size: Height and width.
        seed: Of the noise in the holes; the same images are filled in the same way.
    """

    players: Players
    size: tuple[int, int]
    seed: int

    @torch.no_grad()
    def fill(
        self, images: Any, observed: Any = None, *, random_state: RandomState = None
    ) -> NDArray[Any]:
        """Return images `(rows, height, width)` with their holes filled, all else as it was.

        Args:
            images: as those trained on.
            observed: bool, same shape; True = seen. Without it, NaN marks the holes.
            random_state: seed of the noise in the holes; None takes that of the training.
        """
        values, seen = checked_images(images, observed)
        if values.shape[1:] != self.size:
            raise DataError(
                f"MisGAN was trained on images of {self.size[0]} x {self.size[1]} pixels; got "
                f"shape {values.shape}"
            )
        where = next(self.players.parameters()).device
        seed = self.seed if random_state is None else seed_of(random_state)
        source = generator(seed, "filling", device=where)
        filled = values.copy()
        for start in range(0, len(values), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            x = as_batch(np.where(seen[part], values[part], 0.0), where)
            found = self.players.imputed(x, as_batch(seen[part], where), source)
            # From the caller's own array: values seen keep bits that float32 has no room for.
            filled[part] = np.where(seen[part], values[part], found[:, 0].cpu().numpy())
        return filled
