"""MisGAN's networks: generators of images and of masks, an imputer, and a critic for each.

Li, Jiang and Marlin (2019) take DCGAN's convolutions for generators and critics. There is no
batch norm: under the gradient penalty a score must hang on its own row alone.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn

# Of the masks' sigmoid: below 1, so that masks are nearly 0 or 1 and still have slopes.
TEMPERATURE = 0.66
# Of rectifiers where they are negative, in critics.
LEAK = 0.2

Size = tuple[int, int]


class ImageGenerator(nn.Module):
    """Images `(rows, 1, height, width)` in (0, 1) from latents `(rows, latent)`.

    Args:
        size: height and width, multiples of 4.
        latent: dimensions of the latents.
        channels: of the widest images inside; those of half the size have twice as many.
    """

    def __init__(self, size: Size, latent: int, channels: int) -> None:
        super().__init__()
        self.logits = _upwards(size, latent, channels)

    def forward(self, z: Tensor) -> Tensor:
        """Return images."""
        return self.logits(z).sigmoid()


class MaskGenerator(nn.Module):
    """Masks `(rows, 1, height, width)`, nearly 0 (missing) or 1 (seen), from latents.

    Convolutions know of shapes and a fully connected network of single pixels: their logits are
    added up (`maskgen=fusion` in the paper's appendix E.1).

    Args:
        size: height and width, multiples of 4.
        latent: dimensions of the latents.
        channels: as for images; the fully connected network has 8 times as many units.
    """

    def __init__(self, size: Size, latent: int, channels: int) -> None:
        super().__init__()
        self.shapes = _upwards(size, latent, channels)
        self.pixels = _connected([latent, 8 * channels, 8 * channels, math.prod(size)])

    def forward(self, z: Tensor) -> Tensor:
        """Return masks."""
        shapes = self.shapes(z)
        return ((shapes + self.pixels(z).view_as(shapes)) / TEMPERATURE).sigmoid()


class Imputer(nn.Module):
    """Completed images from images whose holes hold noise.

    Args:
        size: height and width.
        width: units of each of its two hidden layers; the third gives the pixels.
    """

    def __init__(self, size: Size, width: int) -> None:
        super().__init__()
        pixels = math.prod(size)
        self.network = _connected([pixels, width, width, pixels])

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
            parts += [nn.Conv2d(before, after, 5, stride=2, padding=2), nn.LeakyReLU(LEAK)]
            before = after
        height, width = (math.ceil(side / 8) for side in size)
        self.network = nn.Sequential(
            *parts, nn.Flatten(), nn.Linear(before * height * width, 1), nn.Flatten(0)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        return self.network(x)


class Players(nn.Module):
    """All networks of the game; critics are named by what they judge.

    Args:
        size: height and width of the images, multiples of 4.
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
        self.critics.apply(_steep)

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


def _steep(part: nn.Module) -> None:
    """Start weights such that signals keep their size (He et al., 2015).

    With torch's own they shrink, and critics take long until their slopes are near 1. Generators
    are better off with less: their first images are grey.
    """
    if isinstance(part, nn.Linear | nn.Conv2d):
        nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        assert part.bias is not None
        nn.init.zeros_(part.bias)


def _upwards(size: Size, latent: int, channels: int) -> nn.Sequential:
    """Return convolutions from latents to one channel of logits, twice doubling the size."""
    height, width = (side // 4 for side in size)
    return nn.Sequential(
        nn.Linear(latent, 4 * channels * height * width),
        nn.ReLU(),
        nn.Unflatten(1, (4 * channels, height, width)),
        nn.ConvTranspose2d(4 * channels, 2 * channels, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * channels, channels, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, 1, 3, padding=1),
    )


def _connected(sizes: list[int]) -> nn.Sequential:
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
