"""One thread and one seed for each test; a table to read, and efforts only tests would call so."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

from plmcmc.imputation import EFFORTS
from plmcmc.imputation.convergence import LEAST_STATES
from table_files import text
from toy_tables import LEAST

# The same examples each time, and few; a campaign draws others, and many.
ALWAYS = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
settings.register_profile("ci", max_examples=4, derandomize=True, phases=[Phase.generate], **ALWAYS)
settings.register_profile("campaign", max_examples=200, **ALWAYS)
settings.load_profile("ci")
# Two files of tests run side by side (`-n 2`): each has one thread.
torch.set_num_threads(1)
# States enough to tell what has converged.
TELLING = replace(LEAST, states=LEAST_STATES)


@pytest.fixture(autouse=True)
def global_seeds():
    """Other libraries take their first weights and permutations (FrEIA: NumPy's) from these."""
    np.random.seed(0)  # noqa: NPY002
    torch.default_generator.manual_seed(0)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(EFFORTS, "fast", LEAST)
    monkeypatch.setitem(EFFORTS, "default", TELLING)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(text())
    return path
