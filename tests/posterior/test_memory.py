"""Out of memory: half as many rows at once, the same draws, and a notice; or a clear error."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import plmcmc
from exact import shaken
from plmcmc.chains import Checkpoint
from plmcmc.flows import RealNVP
from plmcmc.posterior import MemoryWarning, memory, methods
from toys import Handing, quiet

CHAINS = 2
X = np.where(np.random.default_rng(0).random((300, 3)) < 0.5, np.nan, 0.3)


class Small(Handing):
    """A flow on a device that holds only so many rows."""

    def __init__(self, flow, most, error):
        super().__init__(flow)
        self.most, self.error = most, error

    def to_latent(self, x):
        if len(x) > self.most:
            raise self.error
        return self.flow.to_latent(x)


ERRORS = {
    "gpu": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "cpu": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
    "numpy": MemoryError(),
}


def flow():
    return shaken(RealNVP(3, width=8, random_state=0).double(), 0.5)


@pytest.mark.parametrize("method", ["auto", "pcn"])
@pytest.mark.parametrize("error", ERRORS)
def test_chunks_are_halved_until_they_fit_and_draws_are_the_same(error, method):
    options = {"chains": CHAINS, "warmup": 8, "method": method, "random_state": 0}
    with quiet():
        whole = plmcmc.condition(flow(), X).sample(4, **options)
    small = Small(flow(), 130 * CHAINS, ERRORS[error])
    with quiet(), pytest.warns(MemoryWarning, match="rows at once: continuing with half as many"):
        found = plmcmc.condition(small, X).sample(4, **options)
    assert (found.values == whole.values).all()
    assert (found.acceptance == whole.acceptance)[:, np.isnan(X).any(1)].all()


class Shrinking(Handing):
    """A flow on a device whose memory others take, after some passes of many rows."""

    def __init__(self, flow, most, after):
        super().__init__(flow)
        self.most, self.left = most, after

    def to_latent(self, x):
        many = len(x) > self.most
        self.left -= many
        if many and self.left < 0:
            raise ERRORS["gpu"]
        return self.flow.to_latent(x)


def test_a_halved_chunk_leaves_no_checkpoint_and_its_halves_are_gone_on_with(tmp_path, monkeypatch):
    options = {"chains": CHAINS, "warmup": 8, "method": "pcn", "random_state": 0}
    saved = {"checkpoint": tmp_path, "checkpoint_every": 3}
    roomy = Shrinking(flow(), 140 * CHAINS, 1000)
    with quiet():
        whole = plmcmc.condition(roomy, X).sample(8, **options)
    # Not enough for the last few steps.
    shrinking = Shrinking(flow(), 140 * CHAINS, 1000 - roomy.left - 3)
    save, names = Checkpoint.save, []
    monkeypatch.setattr(
        Checkpoint, "save", lambda self, *given: names.append(self.path.name) or save(self, *given)
    )
    with quiet(), pytest.warns(MemoryWarning):
        found = plmcmc.condition(shrinking, X).sample(8, **options, **saved)
    assert (found.values == whole.values).all()
    # The whole chunk had saved itself before memory ran out.
    assert names[0] not in {path.name for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 2
    # Run again, with memory to spare: nothing is tried that was found not to fit, nothing redone.
    names.clear()
    with quiet():
        roomy = Shrinking(flow(), 140 * CHAINS, 1000)
        again = plmcmc.condition(roomy, X).sample(8, **options, **saved)
    assert names == []
    assert (again.values == whole.values).all()


def test_the_evidence_too():
    whole = plmcmc.condition(flow(), X[:200]).log_evidence(4, stages=3, random_state=0)
    small = Small(flow(), 130 * 4, ERRORS["gpu"])
    with pytest.warns(MemoryWarning):
        found = plmcmc.condition(small, X[:200]).log_evidence(4, stages=3, random_state=0)
    assert (found.log_evidence == whole.log_evidence).all()


def test_less_than_a_block_is_an_error_that_says_what_to_do():
    small = Small(flow(), 10, ERRORS["gpu"])
    with (
        pytest.warns(MemoryWarning),
        pytest.raises(MemoryError, match=r"rows at once.*CUDA out of memory.*fewer chains"),
    ):
        plmcmc.condition(small, X).sample(4, chains=CHAINS, random_state=0)


def test_other_errors_are_not_taken_for_it():
    small = Small(flow(), 10, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        plmcmc.condition(small, X).sample(4, chains=CHAINS, random_state=0)


def test_rows_at_once_follow_what_a_method_takes():
    cpu = torch.zeros(1)
    table = methods.Pullback().footprint(20, 20, 4)
    image = methods.Pullback().footprint(784, 400, 4)
    # Scouts have matrices of their own.
    assert memory.rows_at_once(table, cpu) > 400
    # A Jacobian for each of four chains, in float32: a quarter of a gigabyte holds few.
    assert memory.rows_at_once(image, cpu) < 64
    assert methods.Elliptical().footprint(784, 400, 4) < image / 50


def test_half_of_a_gpu_s_free_memory_is_used(monkeypatch):
    gigabyte = 2**30
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (6 * gigabyte, 16 * gigabyte))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * gigabyte)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: gigabyte)
    gpu = SimpleNamespace(device=torch.device("cuda"), element_size=lambda: 4)
    rows = memory.rows_at_once(2**20, gpu)
    # Six gigabytes that nobody has, and two that torch keeps unused.
    assert rows == 1024 * (6 + 2) // 2 // 4
    often = memory.rows_at_once(2**20, gpu, repeatable=True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (gigabyte, 16 * gigabyte))
    assert memory.rows_at_once(2**20, gpu, repeatable=True) == often
    assert memory.rows_at_once(2**20, gpu) < rows


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_real_device_that_is_full():
    torch.cuda.set_per_process_memory_fraction(0.002)
    try:
        wide = RealNVP(64, width=512, random_state=0).cuda()
        x = np.where(np.arange(64) % 2, np.nan, np.zeros((4000, 64)))
        with quiet(), pytest.warns(MemoryWarning):
            plmcmc.condition(wide, x).sample(2, chains=8, chunk_rows=4000, random_state=0)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
