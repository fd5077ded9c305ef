"""MisGAN's game: three generators against three critics, each generator with a loss of its own."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from plmcmc.baselines.cuda_streams import Abreast
from plmcmc.baselines.misgan_networks import Players
from plmcmc.baselines.wasserstein import critic_loss
from plmcmc.training.optimizers import add_group, optimizer_of

# Of Adam's means of slopes and of their squares.
MOMENTS = (0.5, 0.9)


class Game:
    """Steps of critics and of generators; neither waits for the device.

    Args:
        players: the networks.
        source: of all noise.
        tau: what critics are shown in place of missing pixels.
        alpha: weight, for the generator of masks, of how its masks look on images.
        beta: weight, for the generator of images, of how they look beside completed ones.
        penalty: weight of the critics' gradient penalty.
        learning_rate: of Adam, for generators of images and masks and their critics.
        imputer_learning_rate: for the imputer and its critic.
    """

    def __init__(
        self,
        players: Players,
        source: Generator,
        *,
        tau: float,
        alpha: float,
        beta: float,
        penalty: float,
        learning_rate: float,
        imputer_learning_rate: float,
    ) -> None:
        self.players, self.source = players, source
        self.tau, self.alpha, self.beta, self.penalty = tau, alpha, beta, penalty
        self.weights = list(players.generators.parameters())
        rates = (learning_rate, imputer_learning_rate)
        self.generators = _optimizer(players.generators, *rates)
        self.critics = _optimizer(players.critics, *rates)
        self._abreast = Abreast(len(players.critics), source.device)

    def step_critics(self, x: Tensor, observed: Tensor) -> Tensor:
        """Step all critics once, and return the sum of their losses before."""
        with torch.no_grad():
            images = self.players.images(len(x), self.source)
            masks = self.players.masks(len(x), self.source)
            imputed = self.players.imputed(x, observed, self.source)
            seen = observed.to(x.dtype)
            pairs = [
                (self._masked(x, seen), self._masked(images, masks)),
                (seen, masks),
                # To the third, generated images are the real ones.
                (images, imputed),
            ]
        self.critics.zero_grad()
        losses = self._abreast(
            partial(critic_loss, critic, real, fake, self.penalty, self.source)
            for critic, (real, fake) in zip(self.players.critics, pairs, strict=True)
        )
        loss = sum(losses, torch.zeros((), device=x.device))
        loss.backward()
        self.critics.step()
        return loss.detach()

    def step_generators(self, x: Tensor, observed: Tensor) -> None:
        """Step all generators once, each down its own loss."""
        slopes = torch.autograd.grad(self.generators_loss(x, observed), self.weights)
        for weight, slope in zip(self.weights, slopes, strict=True):
            weight.grad = slope
        self.generators.step()

    def renew(self, state: Tensor) -> None:
        """Draw from a new generator, which goes on from this state: the old one is spoilt."""
        self.source = Generator(self.source.device)
        self.source.set_state(state)

    def generators_loss(self, x: Tensor, observed: Tensor) -> Tensor:
        """Return a number whose slopes are, for each generator, those of its own loss.

        Masks: `L_m + alpha L_x`; images: `L_x + beta L_i`; imputer: `L_i`, in the letters of Li et
        al.
        """
        on_data, on_masks, on_imputed = self.players.critics
        images = self.players.images(len(x), self.source)
        masks = self.players.masks(len(x), self.source)
        imputed = self.players.imputed(x, observed, self.source)
        # As they are, but with alpha of their slopes: the weight is for the masks' generator only.
        lighter = torch.lerp(masks.detach(), masks, self.alpha)
        fooled = on_data(self._masked(images, lighter)) + on_masks(masks) + on_imputed(imputed)
        return self.beta * on_imputed(images).mean() - fooled.mean()

    def _masked(self, x: Tensor, masks: Tensor) -> Tensor:
        """Return what critics are shown of images: tau where they are masked."""
        return x * masks + self.tau * (1 - masks)


def _optimizer(players: nn.ModuleList, rate: float, last: float) -> Optimizer:
    """Return Adam for a side of the game, with another learning rate for its last player."""
    *others, imputing = players
    optimizer = optimizer_of(
        "adam", [own for player in others for own in player.parameters()], rate, betas=MOMENTS
    )
    add_group(optimizer, list(imputing.parameters()), last)
    return optimizer
