"""Glow (Kingma and Dhariwal, 2018): a flow of images at several scales, with learned priors.

Every level squeezes, steps, and lets half of its channels go as latents; what stays says where
these should lie. Latents here are *relative*: less the mean and over the deviation that the rest
predicts, so that all are standard normal. `Absolute` takes them as they leave the levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.utils.checkpoint import checkpoint

from plmcmc.flows.base import Configured, seeded
from plmcmc.flows.conditioner import ACTIVATIONS
from plmcmc.flows.glow_layers import Step, ZeroConvolution, meeting_data, squeezed, unsqueezed
from plmcmc.flows.latents import LATENTS
from plmcmc.flows.protocol import home
from plmcmc.flows.rows import row_sum

COUPLINGS = ("affine", "additive")


class Prior(NamedTuple):
    """Where latents should lie: normal, coordinate by coordinate."""

    mean: Tensor
    log_deviation: Tensor


class Level(nn.Module):
    """Steps at one scale, and the prior of the channels that leave there.

    Args:
        channels: after squeezing.
        steps: how many.
        width: of the couplings' networks.
        last: whether all channels leave.
        **coupling: whether couplings are `affine`, and their networks' `activation`.
    """

    def __init__(
        self, channels: int, steps: int, width: int, *, last: bool, **coupling: Any
    ) -> None:
        super().__init__()
        # A ModuleList's items are typed as modules: the typed tuple is what we walk.
        self.chain = tuple(Step(channels, width, **coupling) for _ in range(steps))
        self.steps = nn.ModuleList(self.chain)
        self.leaving = channels if last else channels // 2
        if last:
            self.mean = nn.Parameter(torch.zeros(channels, 1, 1))
            self.log_deviation = nn.Parameter(torch.zeros(channels, 1, 1))
        else:
            self.predict = ZeroConvolution(channels - self.leaving, 2 * self.leaving)
        self.last = last

    def prior(self, stays: Tensor) -> Prior:
        """Return the prior of what leaves, given what stays."""
        if self.last:
            return Prior(self.mean, self.log_deviation)
        return Prior(*self.predict(stays).to(stays.dtype).chunk(2, 1))

    def to_latent(self, x: Tensor, *, spare: bool) -> tuple[Tensor, Tensor]:
        """Return activations after the steps; `spare` memory by computing them again for slopes."""
        log_det = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        for step in self.chain:
            again = spare and torch.is_grad_enabled()
            x, term = (
                checkpoint(step.to_latent, x, use_reentrant=False) if again else step.to_latent(x)
            )
            log_det = log_det + term
        return x, log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return activations before the steps."""
        log_det = torch.zeros(len(z), dtype=torch.float64, device=z.device)
        for step in reversed(self.chain):
            z, term = step.to_data(z)
            log_det = log_det + term
        return z, log_det


class Glow(Configured):
    """A flow of images with flat, standard normal latents.

    Args:
        shape: shape of an image, `(channels, height, width)`; height and width must be multiples of
            `2 ** levels`.
        levels: number of scales (the paper's L).
        steps: flow steps at each scale (the paper's K).
        width: channels of the hidden layers of the couplings' networks.
        coupling: `"affine"` or `"additive"`.
        activation: activation function of the networks; Kingma and Dhariwal use `"relu"`, whose
            kinks give a density in which chains move slowly.
        spare_memory: recompute activations in the backward pass of training instead of storing
            them.
        random_state: seed for the initial weights.

    Example:
        >>> glow = Glow((3, 8, 8), levels=2, steps=2, width=8, random_state=0)
        >>> z, log_det = glow.to_latent(torch.zeros(5, 3, 8, 8))
        >>> z.shape, log_det.shape
        (torch.Size([5, 192]), torch.Size([5]))
    """

    name = "glow"

    def __init__(
        self,
        shape: Sequence[int],
        *,
        levels: int = 3,
        steps: int = 16,
        width: int = 256,
        coupling: str = "affine",
        activation: str = "silu",
        spare_memory: bool = False,
        random_state: int | None = None,
    ) -> None:
        super().__init__()
        self.shape = channels, height, breadth = _checked(shape, levels)
        if min(levels, steps, width) < 1:
            raise ValueError(
                f"levels, steps and width must be at least 1; got {levels}, {steps}, {width}"
            )
        if coupling not in COUPLINGS:
            raise ValueError(f"coupling must be one of {COUPLINGS}; got {coupling!r}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {[*ACTIVATIONS]}; got {activation!r}")
        self.config = {
            "shape": list(self.shape),
            "levels": levels,
            "steps": steps,
            "width": width,
            "coupling": coupling,
            "activation": activation,
            "spare_memory": spare_memory,
        }
        self.spare_memory = spare_memory
        # Saved with the weights: a flow that was trained must not begin anew.
        self.met: Tensor
        self.register_buffer("met", torch.tensor(False))
        chain, self.parts = [], []
        with seeded(random_state):
            for level in range(levels):
                channels, height, breadth = 4 * channels, height // 2, breadth // 2
                last = level == levels - 1
                options = {"affine": coupling == "affine", "activation": activation}
                chain.append(Level(channels, steps, width, last=last, **options))
                self.parts.append((chain[-1].leaving, height, breadth))
                channels -= chain[-1].leaving
        self.chain: tuple[Level, ...] = tuple(chain)
        self.levels = nn.ModuleList(chain)
        self.sizes = [leaving * height * breadth for leaving, height, breadth in self.parts]

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return flat latents, the shallowest level's first, and `log |det dz/dx|`."""
        left, log_det = self.climb(x)
        found = []
        for part, prior in left:
            found.append((part - prior.mean) * (-prior.log_deviation).exp())
            log_det = log_det - _volume(prior, part)
        return torch.cat([part.flatten(1) for part in found], 1), log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and `log |det dx/dz|`."""
        x, log_det, _ = self.descend(z, relative=True)
        return x, log_det

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of standard normals, in float64."""
        return LATENTS["normal"].log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return standard normals."""
        return LATENTS["normal"].sample((rows, sum(self.sizes)), generator, home(self).dtype)

    def meet(self, x: Tensor) -> None:
        """Begin where activations of these images have mean 0 and deviation 1, layer by layer.

        Training calls it with its first batch, unless the flow was trained before.
        """
        with torch.no_grad(), meeting_data(self):
            self.climb(x)
            self.met.fill_(True)

    def climb(self, x: Tensor) -> tuple[list[tuple[Tensor, Prior]], Tensor]:
        """Return what leaves each level with its prior, and the log-determinant of the steps."""
        left, log_det = [], torch.zeros(len(x), dtype=torch.float64, device=x.device)
        for level in self.chain:
            x, term = level.to_latent(squeezed(x), spare=self.spare_memory and self.training)
            log_det = log_det + term
            x, part = x.split([x.shape[1] - level.leaving, level.leaving], 1)
            left.append((part, level.prior(x)))
        return left, log_det

    def descend(self, z: Tensor, *, relative: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return images of flat latents, relative to their priors or not, log-det and absolutes."""
        log_det = torch.zeros(len(z), dtype=torch.float64, device=z.device)
        x, absolute = z.new_empty(len(z), 0, *self.parts[-1][1:]), []
        for level, part in reversed(list(zip(self.chain, self.split(z), strict=True))):
            if relative:
                prior = level.prior(x)
                log_det = log_det + _volume(prior, part)
                part = prior.mean + part * prior.log_deviation.exp()
            absolute.append(part.flatten(1))
            x, term = level.to_data(torch.cat([x, part], 1))
            x, log_det = unsqueezed(x), log_det + term
        return x, log_det, torch.cat(absolute[::-1], 1)

    def priors(self, z: Tensor) -> list[Prior]:
        """Return the priors of flat absolute latents: the deeper ones say where others lie."""
        found, x = [], z.new_empty(len(z), 0, *self.parts[-1][1:])
        parts = self.split(z)
        for number in reversed(range(len(parts))):
            level = self.chain[number]
            found.append(level.prior(x))
            if number:
                x = unsqueezed(level.to_data(torch.cat([x, parts[number]], 1))[0])
        return found[::-1]

    def split(self, z: Tensor) -> list[Tensor]:
        """Return flat latents as images, the shallowest level's first."""
        pieces = z.split(self.sizes, 1)
        return [p.unflatten(1, shape) for p, shape in zip(pieces, self.parts, strict=True)]


class Absolute(nn.Module):
    """Glow with latents as the levels produce them: the paper's absolute coordinates.

    The density of images is the same, but latents are parametrised differently: given those of
    deeper levels, their prior is normal.

    Args:
        flow: a `Glow`.
    """

    def __init__(self, flow: Glow) -> None:
        super().__init__()
        if not isinstance(flow, Glow):
            raise TypeError(f"only Glow has absolute coordinates; got {type(flow).__name__}")
        self.flow = flow

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return flat latents and `log |det dz/dx|`."""
        left, log_det = self.flow.climb(x)
        return torch.cat([part.flatten(1) for part, _ in left], 1), log_det

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and `log |det dx/dz|`."""
        x, log_det, _ = self.flow.descend(z, relative=False)
        return x, log_det

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density; all levels but the shallowest are decoded for it."""
        parts, priors = self.flow.split(z), self.flow.priors(z)
        found = torch.zeros(len(z), dtype=torch.float64, device=z.device)
        for part, prior in zip(parts, priors, strict=True):
            relative = (part - prior.mean) * (-prior.log_deviation).exp()
            found = found + LATENTS["normal"].log_prob(relative) - _volume(prior, part)
        return found

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return latents drawn from their density."""
        return self.tempered(rows, generator, 1.0)

    def tempered(self, rows: int, generator: Generator, temperature: float) -> Tensor:
        """Return latents drawn with priors that are narrower by a factor."""
        relative = temperature * self.flow.latent_sample(rows, generator)
        return self.flow.descend(relative, relative=True)[2]


def _volume(prior: Prior, part: Tensor) -> Tensor:
    """Return the sum of a prior's log-deviations, `(rows,)` in float64."""
    full = prior.log_deviation.expand_as(part)
    return row_sum(full)


def _checked(shape: Sequence[int], levels: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"shape must be (channels, height, width); got {tuple(shape)}")
    channels, height, width = (int(size) for size in shape)
    if height % 2**levels or width % 2**levels:
        raise ValueError(
            f"height and width must be multiples of {2**levels} for {levels} levels; got "
            f"{height} x {width}: use fewer levels, or pad the images"
        )
    return channels, height, width
