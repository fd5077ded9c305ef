"""Mixtures pick as they are told, row by row."""

import pytest
import torch

from plmcmc.kernels import CrankNicolson, Mixture, Perturb, Resample, Turns
from plmcmc.rng import Streams

ROWS = 6000


def streams():
    return Streams.of_rows(0, "steps", ROWS)


def test_shares_are_the_weights():
    mixture = Mixture((Perturb(0.1), Resample(2.0), CrankNicolson(0.6, 3.0)), (1, 2, 3))
    move = mixture.move(torch.zeros(ROWS, 2), streams())
    for keep, spread, precision, share in (
        (1.0, 0.1, 0.0, 1 / 6),
        (0.0, 2.0, 0.25, 2 / 6),
        (0.8, 1.8, 1 / 9, 3 / 6),
    ):
        own = torch.isclose(move.spread, torch.tensor(spread).double())
        # Binomial: four standard deviations.
        off = abs(float(own.double().mean()) - share)
        assert off < 4 * (share * (1 - share) / ROWS) ** 0.5
        torch.testing.assert_close(move.keep[own], torch.full_like(move.keep[own], keep))
        torch.testing.assert_close(
            move.precision[own], torch.full_like(move.precision[own], precision)
        )


def test_turns_are_each_row_s_own():
    kept = Turns((0.0, 0.5)).move(torch.zeros(ROWS, 2), streams()).keep
    assert abs(float((kept == 0.5).double().mean()) - 0.5) < 4 * 0.5 / ROWS**0.5


def test_mixtures_are_of_gaussian_moves():
    with pytest.raises(TypeError, match=r"Gaussian moves .*; got function"):
        Mixture((Perturb(0.1), lambda position, streams: (position, 0.0)), (1, 1))
