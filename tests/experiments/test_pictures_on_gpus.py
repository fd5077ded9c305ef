"""The experiments with pictures on a GPU: they run, and chains begin where they are said to."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plmcmc.experiments import experiment_of
from plmcmc.experiments.study import Place

CASES = [
    ("cifar", "hole 2, Algorithm 1"),
    ("cifar", "hole 2, default"),
    ("celeba", "right half, Algorithm 1"),
    ("mnist", "P.M. 0.6, PL-MCMC"),
    ("mnist", "P.M. 0.6, default"),
    ("training-progress", "I.M. 0.6, last E-step"),
]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "part"), CASES)
def test_a_part_runs_on_a_gpu(name, part, tmp_path):
    place = Place(tmp_path, tmp_path / "shared", device="cuda", progress=False)
    found = experiment_of(name, "smoke").run(part, place)
    assert all(np.isfinite(array).all() for array in found.arrays.values())
    assert found.numbers["acceptance"] is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_stuck_chains_stay_where_they_began_on_a_gpu(tmp_path):
    place = Place(tmp_path, tmp_path / "shared", device="cuda", progress=False)
    stuck = replace(experiment_of("cifar", "smoke"), auxiliary=1e-6, perturb=1.0)
    pictures = stuck.run("hole 2, Algorithm 1", place).arrays["progress"].astype(int)
    assert np.abs(pictures[-1] - pictures[0]).max() <= 1
