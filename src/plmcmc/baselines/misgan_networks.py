"""MisGAN's networks: generators of images and of masks, an imputer, and a critic for each.

As large as the defaults of Li, Jiang and Marlin's own implementation (2019), which the paper used.
There is no batch norm: under the gradient penalty a score must depend on its own row alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn

# Of the masks' sigmoid, which is then stretched beyond 0 and 1 and cut there (`maskgen=fusion`): a
# generated mask can be exactly 0 or 1, and has slopes in between.
TEMPERATURE, STRETCH = 0.66, 0.1
# Convolutions that make images make none smaller: of those, a corner is taken.
SMALLEST = 16

Size = tuple[int, int]


class ImageGenerator(nn.Module):
    """Images `(rows, 1, height, width)` in (0, 1) from latents `(rows, latent)`.

    Args:
        size: height and width.
        latent: dimensions of the latents.
        channels: of the largest images inside; the ones before have two and four times as many.
    """

    def __init__(self, size: Size, latent: int, channels: int) -> None:
        super().__init__()
        self.logits = Upwards(size, latent, channels)

    def forward(self, z: Tensor) -> Tensor:
        """Return images."""
        return self.logits(z).sigmoid()


class MaskGenerator(nn.Module):
    """Masks `(rows, 1, height, width)` from 0 (missing) to 1 (seen), from latents.

    Args:
        size: height and width.
        latent: dimensions of the latents.
        channels: as for images.
    """

    def __init__(self, size: Size, latent: int, channels: int) -> None:
        super().__init__()
        self.logits = Upwards(size, latent, channels)

    def forward(self, z: Tensor) -> Tensor:
        """Return masks."""
        soft = (self.logits(z) / TEMPERATURE).sigmoid()
        return ((1 + 2 * STRETCH) * soft - STRETCH).clamp(0, 1)


class Imputer(nn.Module):
    """Completed images from images whose holes hold noise.

    Args:
        size: height and width.
        width: units of each of its three hidden layers.
    """

    def __init__(self, size: Size, width: int) -> None:
        super().__init__()
        pixels = math.prod(size)
        sizes = [pixels, width, width, width, pixels]
        layers = [part for ends in pairwise(sizes) for part in (nn.Linear(*ends), nn.ReLU())]
        self.network = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor, observed: Tensor, noise: Tensor) -> Tensor:
        """Return `(rows, 1, height, width)`: seen pixels as they are, others in (0, 1)."""
        found = self.network(torch.where(observed, x, noise).flatten(1)).sigmoid()
        return torch.where(observed, x, found.view_as(x))


class Critic(nn.Module):
    """Scores `(rows,)` of images or masks `(rows, 1, height, width)`.

    Args:
        size: height and width.
        channels: of the first convolution; each of the next two has twice as many.
    """

    def __init__(self, size: Size, channels: int) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        before = 1
        for after in (channels, 2 * channels, 4 * channels):
            parts += [nn.Conv2d(before, after, 5, stride=2, padding=2), nn.ReLU()]
            before = after
        height, width = (math.ceil(side / 8) for side in size)
        self.network = nn.Sequential(
            *parts, nn.Flatten(), nn.Linear(before * height * width, 1), nn.Flatten(0)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        return self.network(x)


class Upwards(nn.Module):
    """One channel of logits `(rows, 1, height, width)` from latents, by three convolutions.

    For digits of 28 x 28: 4 x 4, 8 x 8 of which 7 x 7 are kept, 11 x 11, 28 x 28.

    Args:
        size: height and width.
        latent: dimensions of the latents.
        channels: of the largest images inside; the ones before have two and four times as many.
    """

    def __init__(self, size: Size, latent: int, channels: int) -> None:
        super().__init__()
        self.size = size
        # The last convolution makes 2 n + 6 of n, the second n + 4.
        self.middle = [(max(side + side % 2, SMALLEST) - 14) // 2 for side in size]
        first = [max(1, side - 3) for side in self.middle]
        self.begin = nn.Sequential(
            nn.Linear(latent, 4 * channels * math.prod(first)),
            nn.ReLU(),
            nn.Unflatten(1, (4 * channels, *first)),
            nn.ConvTranspose2d(4 * channels, 2 * channels, 5),
            nn.ReLU(),
        )
        self.end = nn.Sequential(
            nn.ConvTranspose2d(2 * channels, channels, 5),
            nn.ReLU(),
            nn.ConvTranspose2d(channels, 1, 8, stride=2),
        )

    def forward(self, z: Tensor) -> Tensor:
        """Return logits."""
        return _corner(self.end(_corner(self.begin(z), self.middle)), self.size)


def _corner(x: Tensor, size: Sequence[int]) -> Tensor:
    return x[:, :, : size[0], : size[1]]


class Players(nn.Module):
    """All networks of the game; critics are named by what they judge.

    Args:
        size: height and width of the images.
        latent: dimensions of the generators' latents.
        channels: of generators and critics.
        width: units of the imputer's hidden layers.
    """

    def __init__(self, size: Size, latent: int, channels: int, width: int) -> None:
        super().__init__()
        self.latent = latent
        self.generators = nn.ModuleList(
            [
                ImageGenerator(size, latent, channels),
                MaskGenerator(size, latent, channels),
                Imputer(size, width),
            ]
        )
        self.critics = nn.ModuleList([Critic(size, channels) for _ in range(3)])

    def images(self, rows: int, source: Generator) -> Tensor:
        """Return generated images."""
        return self.generators[0](self._latents(rows, source))

    def masks(self, rows: int, source: Generator) -> Tensor:
        """Return generated masks."""
        return self.generators[1](self._latents(rows, source))

    def imputed(self, x: Tensor, observed: Tensor, source: Generator) -> Tensor:
        """Return images with their holes filled; noise is uniform, as wide as pixels are."""
        noise = torch.rand(x.shape, generator=source, device=x.device)
        return self.generators[2](x, observed, noise)

    def _latents(self, rows: int, source: Generator) -> Tensor:
        return torch.randn(rows, self.latent, generator=source, device=source.device)
