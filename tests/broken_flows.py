"""Flows that each break one promise, with the words that must convict them.

A line in `BROKEN` is a negative control of `check_flow`.
"""

import torch
from torch import nn

from flow_cases import realnvp, shaken
from toys import Handing


class Honest(Handing):
    """A flow that hands everything on to a good one, whose volume varies; others break it."""

    def __init__(self):
        super().__init__(shaken(realnvp(4)).eval())


class Disagrees(Honest):
    def to_data(self, z):
        x, log_det = super().to_data(z)
        return x + 0.05 * (torch.arange(len(x)) == 5)[:, None], log_det


class DisagreesElsewhere(Honest):
    """Right on the trial rows, wrong where latents are large."""

    def to_data(self, z):
        x, log_det = super().to_data(z)
        return torch.where(z.abs().amax(1, keepdim=True) > 2.5, x + 1, x), log_det


class SignFlipped(Honest):
    def to_latent(self, x):
        z, log_det = super().to_latent(x)
        return z, -log_det

    def to_data(self, z):
        x, log_det = super().to_data(z)
        return x, -log_det


class SignFlippedOnce(Honest):
    def to_data(self, z):
        x, log_det = super().to_data(z)
        return x, -log_det


class Dropped(Honest):
    def to_latent(self, x):
        z, log_det = super().to_latent(x)
        return z, 0 * log_det

    def to_data(self, z):
        x, log_det = super().to_data(z)
        return x, 0 * log_det


class OneTerm(Honest):
    def to_latent(self, x):
        z, log_det = super().to_latent(x)
        return z, log_det.sum()


class PlainNumber(Honest):
    def to_data(self, z):
        return super().to_data(z)[0], 0.0


class TermPerColumn(Honest):
    def latent_log_prob(self, z):
        return -0.5 * z.square()


class OtherShape(Honest):
    def to_data(self, z):
        x, log_det = super().to_data(z)
        return x[:, :3], log_det


class TooFewLatents(Honest):
    def latent_sample(self, rows, generator):
        return super().latent_sample(rows, generator)[:, :3]


class Noisy(Honest):
    def to_latent(self, x):
        z, log_det = super().to_latent(x)
        return z + 0.01 * torch.randn_like(z), log_det


class BatchStatistics(nn.Module):
    """A shift by a network with BatchNorm inside."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
        self.flow = shaken(realnvp(4))

    def to_latent(self, x):
        fixed, moved = x.chunk(2, 1)
        return self.flow.to_latent(torch.cat((fixed, moved + self.network(fixed)), 1))

    def to_data(self, z):
        x, log_det = self.flow.to_data(z)
        fixed, moved = x.chunk(2, 1)
        return torch.cat((fixed, moved - self.network(fixed)), 1), log_det

    def latent_log_prob(self, z):
        return self.flow.latent_log_prob(z)

    def latent_sample(self, rows, generator):
        return self.flow.latent_sample(rows, generator)


class NotANumber(Honest):
    def to_latent(self, x):
        z, log_det = super().to_latent(x)
        return torch.where((torch.arange(len(z)) == 3)[:, None], torch.nan, z), log_det


class InfiniteDensity(Honest):
    def latent_log_prob(self, z):
        return torch.where(torch.arange(len(z)) == 7, -torch.inf, super().latent_log_prob(z))


class IgnoresGenerator(Honest):
    def latent_sample(self, rows, generator):
        return super().latent_sample(rows, torch.Generator().manual_seed(0))


class GlobalGenerator(Honest):
    def latent_sample(self, rows, generator):
        return torch.randn(rows, 4)


class Incapable:
    def to_latent(self, x):
        return x, torch.zeros(len(x))

    def to_data(self, z):
        return z, torch.zeros(len(z))


BROKEN = {
    "disagree": (Disagrees, r"to_data undoes to_latent: relative error \S+ at row 5 \(allowed"),
    "disagree elsewhere": (DisagreesElsewhere, r"to_latent undoes to_data: relative error"),
    "sign flipped": (SignFlipped, r"the log-det is the derivative's: \S+ where autograd finds"),
    "sign flipped once": (SignFlippedOnce, r"the two log-dets cancel: relative error"),
    "log-det dropped": (Dropped, r"the log-det is the derivative's: 0 where autograd finds"),
    "one term": (OneTerm, r"one term per row.*to_latent's log-det has shape \(\) where \(16,\)"),
    "plain number": (PlainNumber, r"to_data's log-det has shape \(\) where \(16,\) is expected"),
    "term per column": (TermPerColumn, r"latent_log_prob has shape \(16, 4\) where \(16,\)"),
    "other shape": (OtherShape, r"to_data returns shape \(16, 3\) for x of shape \(16, 4\)"),
    "too few latents": (
        TooFewLatents,
        r"latent_sample returns shape \(16, 3\), to_latent \(16, 4\)",
    ),
    "noise": (
        Noisy,
        r"the same answer twice.*does the flow add noise, or is a module in train mode",
    ),
    "batch norm": (
        lambda: BatchStatistics().train(),
        r"depend on its neighbours.*does the flow use batch statistics \(call flow.eval\(\)\)",
    ),
    "not a number": (NotANumber, r"finite numbers: to_latent is NaN or infinite at row 3"),
    "infinite density": (InfiniteDensity, r"latent_log_prob is NaN or infinite at row 7"),
    "generator ignored": (IgnoresGenerator, r"latent_sample ignores its generator"),
    "global generator": (
        GlobalGenerator,
        r"different draws for the same generator seed: does it use",
    ),
    "methods missing": (Incapable, r"Incapable is not a flow: it has no latent_log_prob, latent_s"),
}
