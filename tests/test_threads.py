"""Tables are learned and filled by one thread, however many there are, unless somebody says."""

import numpy as np
import pytest
import torch

from plmcmc import FlowImputer
from plmcmc.threads import one_thread
from plmcmc.training.tables.online_em import TableEM

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("told", "threads"), [(None, 1), ("2", 2)])
def test_one_unless_told(told, threads, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if told:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    with one_thread():
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_imputer_works_with_one_and_leaves_the_others(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen, step = set(), TableEM.step

    def watched(*given):
        seen.add(torch.get_num_threads())
        return step(*given)

    monkeypatch.setattr(TableEM, "step", watched)
    x = np.random.default_rng(0).normal(size=(80, 3))
    x[::3, 1] = np.nan
    FlowImputer("fast", random_state=0, progress=False).fit(x)
    assert seen == {1}
    assert torch.get_num_threads() == 2
