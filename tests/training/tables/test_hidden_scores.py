"""How well mixtures find what was hidden, where flags tell of it: by draws of their own."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from plmcmc.data import Regions
from plmcmc.flows import GaussianMixture
from plmcmc.flows.mixture import Components
from plmcmc.training.tables import mixtures
from plmcmc.training.tables.gaussian import Gaussian
from plmcmc.training.tables.mixtures import DRAWS, hidden_scores
from plmcmc.training.tables.references import References

ROWS, WEIGHT, CENTRE, WIDTH = 64, torch.tensor([0.15, 0.85]).double(), (0.4, 1.4), 0.5


class Kept:
    """Stands for hidden values, and keeps the draws that would be scored."""

    rows = np.arange(ROWS)

    def scores(self, completions):
        self.draws = completions
        return np.zeros(ROWS)


def drawn(seen):
    """Return draws of the first column, known to lie about -2 or 2, given one of the second.

    Args:
        seen: the interval that the second column lies in.
    """
    mean = torch.tensor([[2.0, CENTRE[0]], [-2.0, CENTRE[1]]]).double()
    covariance = WIDTH**2 * torch.eye(2).double().expand(2, 2, 2)
    mixture = GaussianMixture.of([Components(WEIGHT, mean, covariance)])
    ends = (np.tile([end, at], (ROWS, 1)) for end, at in zip((-np.inf, np.inf), seen, strict=True))
    regions = Regions(*(np.ascontiguousarray(end) for end in ends))
    gaussian = Gaussian(torch.zeros(2).double(), torch.eye(2).double())
    kept = Kept()
    hidden_scores(mixture, References(gaussian, regions, mixture.mean), kept, seed=0)
    return kept.draws[:, 0]


def chance_of_high(low, high):
    """Return the probability that the first column is about 2."""
    inside = [norm.cdf(high, c, WIDTH) - norm.cdf(low, c, WIDTH) for c in CENTRE]
    weighted = WEIGHT.numpy() * inside
    return weighted[0] / weighted.sum()


def off(low, high):
    chance, draws = chance_of_high(low, high), drawn((low, high))
    assert len(draws) == ROWS * DRAWS
    return ((draws > 0).mean() - chance) / (chance * (1 - chance) / len(draws)) ** 0.5


def test_where_a_flag_tells_of_the_hole_draws_are_the_mixtures_own():
    assert abs(off(0.0, np.inf)) < 4


def test_without_moves_they_are_the_gaussians_to_begin_with(monkeypatch):
    """The control: the flag's score stays where a Gaussian has it, mostly in the wrong cluster."""
    monkeypatch.setattr(mixtures, "MOVES", 0)
    assert off(0.0, np.inf) > 8


def test_what_is_known_exactly_needs_no_moves(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr(mixtures, "tune", refuse)
    height = norm.pdf(0.9, CENTRE, WIDTH) * WEIGHT.numpy()
    chance = height[0] / height.sum()
    share = (drawn((0.9, 0.9)) > 0).mean()
    assert share == pytest.approx(chance, abs=4 * (chance * (1 - chance) / (ROWS * DRAWS)) ** 0.5)
