"""Algorithm 1 as experiments run it: what its chains are asked, and in which units they answer."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plmcmc.chains import Unconditional
from plmcmc.experiments import algorithm1
from plmcmc.experiments.algorithm1 import last_completions, progression
from plmcmc.experiments.study import Place
from plmcmc.flows import Linear, Preprocessed, Whiten
from plmcmc.posterior import ConvergenceWarning, condition
from plmcmc.posterior.methods import Metropolis
from plmcmc.target import NormalAuxiliary

METHOD = Metropolis(0.05, 0.5, NormalAuxiliary(1e-3))
START = Unconditional(0.5, projected=False)
MEAN, SCALE = np.array([10.0, 20.0]), np.array([2.0, 4.0])


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, tmp_path, progress=False)


@pytest.fixture
def asked(monkeypatch):
    """Note how rows are conditioned on and sampled; answer with known draws in whitened units."""
    seen = {}

    def conditioned(flow, rows, **options):
        def sample(count, **given):
            seen.update(flow=flow, rows=rows, count=count, options=options, **given)
            values = np.arange(4.0).reshape(2, 1, 1, 2)
            return SimpleNamespace(values=values)

        return SimpleNamespace(sample=sample)

    monkeypatch.setattr(algorithm1, "condition", conditioned)
    return seen


def test_last_completions_are_of_chains_with_this_method_start_and_length(asked, place):
    whiten = Whiten(torch.as_tensor(MEAN), torch.as_tensor(SCALE))
    flow = Preprocessed([whiten], Linear(2).double())
    rows = np.array([[14.0, np.nan]])
    found = last_completions(
        flow, rows, METHOD, START, place, proposals=2000, chains=2, seed=7, precision="tf32"
    )
    assert asked["method"] is METHOD
    assert asked["start"] is START
    # One draw after all proposals, none of them thrown away before.
    assert (asked["count"], asked["thin"], asked["warmup"], asked["chains"]) == (1, 2000, 0, 2)
    assert asked["random_state"] == 7
    assert asked["options"]["precision"] == "tf32"
    # The flow behind the whitening, and rows in its units; back in the rows' own.
    assert asked["flow"] is flow.flow
    np.testing.assert_array_equal(asked["rows"], [[2.0, np.nan]])
    np.testing.assert_array_equal(found, [[[10.0, 24.0]], [[14.0, 32.0]]])


def test_a_progression_keeps_every_so_many_proposals(place, monkeypatch):
    rows, seen = np.array([[0.5, np.nan]]), {}
    posterior = condition(Linear(2).double(), rows)
    sample = type(posterior).sample

    def watched(self, count, **given):
        seen.update(count=count, **given)
        return sample(self, count, **given)

    monkeypatch.setattr(type(posterior), "sample", watched)
    options = {"proposals": 20, "every": 5, "chains": 3, "seed": 0}
    with pytest.warns(ConvergenceWarning):
        draws, first = progression(posterior, METHOD, START, "some part", place, **options)
    assert draws.values.shape == (3, 4, 1, 2)
    assert first.shape == (1, 2)
    assert (seen["thin"], seen["warmup"], seen["chains"]) == (5, 0, 3)
    assert seen["method"] is METHOD
    assert seen["start"] is START
    assert seen["checkpoint"] == place.checkpoint("some part")
    # What was observed is put in where the first chain begins, too.
    assert first[0, 0] == 0.5
