"""Rows whose missing values have several modes: are their weights right, and if not, who is warned?

    python benchmarks/modes.py

Compares the default sampler with itself when it makes no hops. All answers are known in closed form
or by quadrature. Takes about five minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import plmcmc
from plmcmc.flows.mixture import Components, GaussianMixture

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from toys import Mixture

Array = NDArray[np.floating]
DRAWS, LIMIT = 200, 1.05
# A weight this far off is wrong, whatever the number of draws.
WRONG = 0.15


class Task(NamedTuple):
    """Rows, which of their draws are in the mode asked about, and how many should be."""

    flow: torch.nn.Module
    x: Array
    inside: Callable[[Array], NDArray[np.bool_]]
    weight: Array


class Curve(torch.nn.Module):
    """`x1 = f(x0)` and a little noise: given `x1`, `x0` may be at any of the roots."""

    def __init__(self, f: Callable[[Tensor], Tensor], noise: float, spread: float) -> None:
        super().__init__()
        self.f, self.noise, self.spread = f, noise, spread
        self.register_buffer("kind", torch.zeros(1, dtype=torch.float64))

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = x[:, 0]
        z = torch.stack([first / self.spread, (x[:, 1] - self.f(first)) / self.noise], 1)
        return z, torch.full_like(first, -np.log(self.noise * self.spread))

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        first = z[:, 0] * self.spread
        x = torch.stack([first, self.f(first) + self.noise * z[:, 1]], 1)
        return x, torch.full_like(first, np.log(self.noise * self.spread))

    def latent_log_prob(self, z: Tensor) -> Tensor:
        return -0.5 * z.square().sum(1) - np.log(2 * np.pi)

    def latent_sample(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(rows, 2, generator=generator, dtype=torch.float64)


def curve(f: Callable[[Tensor], Tensor], noise: float, spread: float, rows: int) -> Task:
    """Rows of the flow; how many draws are on the right of the conditional's own median."""
    flow, source = Curve(f, noise, spread), torch.Generator().manual_seed(1)
    x = flow.to_data(flow.latent_sample(rows, source))[0].numpy()
    grid = np.linspace(-9, 9, 40001)
    off = (x[:, 1:] - f(torch.tensor(grid)).numpy()) / noise
    height = -0.5 * ((grid / spread) ** 2 + off**2)
    mass = np.exp(height - height.max(1, keepdims=True)).cumsum(1)
    share = mass / mass[:, -1:]
    place = (share < 0.5).sum(1)
    x[:, 0] = np.nan
    return Task(flow, x, lambda v: v[..., 0] > grid[place], 1 - share[np.arange(rows), place])


def two_modes(holes: int, weight: float, rows: int) -> Task:
    """Two Gaussians, twelve deviations apart in every hole."""
    mean = torch.tensor([[0.0] + [-3.0] * holes, [0.0] + [3.0] * holes])
    spread = 0.25 * torch.eye(holes + 1).repeat(2, 1, 1)
    flow = GaussianMixture.of([Components(torch.tensor([1 - weight, weight]), mean, spread)])
    x = np.full((rows, holes + 1), np.nan)
    x[:, 0] = np.linspace(-0.5, 0.5, rows)
    return Task(flow.double(), x, lambda v: v[..., 1] > 0, np.full(rows, weight))


def wide_and_narrow(holes: int, rows: int) -> Task:
    """Two modes of different widths; the wider one is many nats lower."""
    flow = Mixture(features=holes + 1, gap=6.0)
    x = np.full((rows, holes + 1), np.nan)
    x[:, -1] = seen = np.linspace(-1, 1, rows)
    wide = flow.weight * np.exp(-0.5 * (seen / flow.ratio) ** 2) / flow.ratio
    narrow = (1 - flow.weight) * np.exp(-0.5 * seen**2)
    return Task(flow, x, lambda v: v[..., 0] > 0, wide / (wide + narrow))


def clusters(holes: int, seen: int, rows: int, count: int = 20) -> Task:
    """Twenty clusters in pairs, which share what is seen: a row may be of either of its pair."""
    source, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    mean = 3 * torch.randn(count, seen + holes, generator=source)
    mean[:, :seen] = mean[::2, :seen].repeat_interleave(2, 0)
    spread = 0.25 * torch.eye(seen + holes).repeat(count, 1, 1)
    flow = GaussianMixture.of([Components(torch.full((count,), 1 / count), mean, spread)])
    own = 2 * rng.integers(0, count // 2, rows)
    x = np.full((rows, seen + holes), np.nan)
    x[:, :seen] = mean[own, :seen].numpy() + 0.5 * rng.normal(size=(rows, seen))
    one, other = (mean[own + part, seen:].double().numpy() for part in (0, 1))

    def inside(values: Array) -> NDArray[np.bool_]:
        off = (np.square(values[..., seen:] - centre).sum(-1) for centre in (one, other))
        return np.less(*off)

    return Task(flow.double(), x, inside, np.full(rows, 0.5))


def tasks(rows: int) -> dict[str, Task]:
    """Return every task by its name."""
    return {
        "x1 = x0^2 / 2, one hole": curve(lambda a: a**2 / 2, 0.3, 1.5, rows),
        "x1 = x0^2, one hole": curve(lambda a: a**2, 0.082, 1.0, rows),
        "x1 = x0^3 / 3 - x0, one hole": curve(lambda a: a**3 / 3 - a, 0.135, 1.5, rows),
        "x1 = sin(3 x0), one hole": curve(lambda a: (3 * a).sin(), 0.135, 1.0, rows),
        "two Gaussians, .7 and .3, 2 holes": two_modes(2, 0.3, rows),
        "two Gaussians, .7 and .3, 10 holes": two_modes(10, 0.3, rows),
        "two Gaussians, .7 and .3, 30 holes": two_modes(30, 0.3, rows),
        "20 clusters, 4 holes": clusters(4, 4, rows),
        "20 clusters, 8 holes": clusters(8, 8, rows),
        "a wide and a narrow mode, 39 holes": wide_and_narrow(39, rows),
    }


def weighed(task: Task) -> list[str]:
    """Return how far the weights are off, who is warned, and what it cost."""
    draws = plmcmc.condition(task.flow, task.x, check=False).sample(DRAWS, random_state=0)
    off = np.abs(task.inside(draws.values).mean((0, 1)) - task.weight)
    warned = np.nanmax(draws.rhat(), 1) > LIMIT
    silent = (off > WRONG) & ~warned
    numbers = [f"{np.sqrt((off**2).mean()):.3f}", f"{silent.mean():.2f}", f"{warned.mean():.2f}"]
    return [*numbers, f"{draws.passes:,}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=64, help="rows of a task")
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore")
    without = mock.patch("plmcmc.adaptation.warmup.HOPS", 0)
    print("| rows | weights off by | silently wrong | R-hat above 1.05 | passes |")
    print("|---|---|---|---|---|", flush=True)
    for name, task in tasks(rows).items():
        with without:
            before = weighed(task)
        pairs = zip(before, weighed(task), strict=True)
        print(f"| {name} | " + " | ".join(f"{a}, **{b}**" for a, b in pairs) + " |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
