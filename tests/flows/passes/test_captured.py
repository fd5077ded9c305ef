"""A flow whose passes are replayed: the same values and gradients as the flow itself.

A graph needs a GPU; here a replay works again what it recorded, into the same tensors.
"""

import gc
from contextlib import nullcontext

import pytest
import torch

import plmcmc.flows.passes.captured as captured
from flow_cases import shaken
from plmcmc.data import Incomplete
from plmcmc.flows import Captured, Glow, RealNVP, check_flow, full_precision, home, log_prob, sample
from plmcmc.flows.protocol import tempered
from plmcmc.kernels import differentiated
from plmcmc.target import ConditionalTarget


class Recorder:
    """Stands in for graphs: counts captures and replays."""

    def __init__(self, monkeypatch, *, refuses=None):
        self.captures = self.replays = 0
        self.refuses = refuses
        if torch.cuda.is_available():
            pytest.skip("graphs themselves are tested there")
        monkeypatch.setattr(captured, "rehearse", lambda work: work())
        monkeypatch.setattr(captured, "record", self.record)

    def record(self, work):
        if self.refuses:
            raise self.refuses("operation not permitted when stream is capturing")
        self.captures += 1
        # The gradient's work is a graph already: what a replay works through again.
        kept = work()
        return kept, lambda: self.again(work, kept)

    def again(self, work, kept):
        self.replays += 1
        for old, new in zip(kept, work(), strict=True):
            old.data.copy_(new.detach())


def flow():
    return shaken(RealNVP(4, width=8, depth=1, random_state=0), 0.3).eval()


def rows(count=5, seed=0):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", ["to_latent", "to_data", "latent_log_prob"])
def test_replays_give_what_the_flow_gives(name, monkeypatch):
    recorder, own = Recorder(monkeypatch), flow()
    wrapped = Captured(own)
    with torch.no_grad():
        for seed in range(6):
            torch.testing.assert_close(
                getattr(wrapped, name)(rows(seed=seed)), getattr(own, name)(rows(seed=seed))
            )
    # Two calls as they are, one capture, and it and three more replayed.
    assert (recorder.captures, recorder.replays) == (1, 4)


def test_other_shapes_are_captured_apart(monkeypatch):
    recorder, own = Recorder(monkeypatch), flow()
    wrapped = Captured(own)
    with torch.no_grad():
        for count in (5, 3, 5, 3, 5, 3, 5):
            torch.testing.assert_close(wrapped.to_latent(rows(count)), own.to_latent(rows(count)))
    assert recorder.captures == 2


def test_large_batches_are_not_captured(monkeypatch):
    recorder, own = Recorder(monkeypatch), flow()
    monkeypatch.setattr(captured, "LARGE", rows(5).numel())
    wrapped = Captured(own)
    with torch.no_grad():
        for count in (6, 6, 6, 6):
            torch.testing.assert_close(wrapped.to_latent(rows(count)), own.to_latent(rows(count)))
        assert recorder.captures == 0
        for _ in range(4):
            wrapped.to_latent(rows(5))
    assert recorder.captures == 1


def test_what_is_returned_stays_when_the_next_is_asked_for(monkeypatch):
    Recorder(monkeypatch)
    wrapped = Captured(flow())
    with torch.no_grad():
        found = [wrapped.to_latent(rows(seed=seed))[0] for seed in range(5)]
    assert not torch.equal(found[3], found[4])


def test_a_flow_that_cannot_be_captured_is_run_as_it_is(monkeypatch):
    Recorder(monkeypatch, refuses=RuntimeError)
    own = flow()
    wrapped = Captured(own)
    with torch.no_grad():
        for _ in range(5):
            torch.testing.assert_close(wrapped.to_latent(rows()), own.to_latent(rows()))


def test_too_little_memory_to_capture_is_said(monkeypatch):
    Recorder(monkeypatch, refuses=torch.OutOfMemoryError)
    wrapped = Captured(flow())
    with torch.no_grad():
        for _ in range(captured.FIRST - 1):
            wrapped.to_latent(rows())
        with pytest.raises(torch.OutOfMemoryError):
            wrapped.to_latent(rows())


class Doubled:
    """A captured pass that doubles, and so does its gradient."""

    number = 0

    def ahead(self, x):
        self.number += 1
        return (2 * x,)

    def slope(self, slopes):
        return 2 * slopes[0]


def test_slopes_are_handed_to_the_captured_gradient():
    x, weights, own = rows().requires_grad_(), rows(seed=1), Doubled()
    (found,) = captured._Replayed.apply(x, own)
    (slope,) = torch.autograd.grad((found * weights).sum(), x)
    assert torch.equal(slope, 2 * weights)


def test_a_slope_of_an_older_pass_is_refused():
    x, own = rows().requires_grad_(), Doubled()
    (older,) = captured._Replayed.apply(x, own)
    captured._Replayed.apply(x, own)
    with pytest.raises(RuntimeError, match="run again before its gradient"):
        older.sum().backward()


def test_weights_want_slopes_as_before(monkeypatch):
    Recorder(monkeypatch)
    own = flow()
    own.requires_grad_(True)
    wrapped = Captured(own)
    with torch.no_grad():
        for _ in range(4):
            wrapped.to_latent(rows())
    assert all(weight.requires_grad for weight in own.parameters())


def test_all_else_is_the_flow_s_own():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    own = shaken(Glow((1, 4, 4), levels=2, steps=1, width=4, random_state=0), 0.1).eval().to(device)
    wrapped = Captured(own)
    assert home(wrapped) == home(own)
    assert wrapped.sizes == own.sizes
    source = torch.Generator(device).manual_seed(0)
    assert tempered(wrapped, 2, source, 0.5).shape == (2, 16)
    with torch.no_grad(), full_precision():
        check_flow(wrapped, sample(own, 8, source))
    assert not hasattr(wrapped, "nothing_of_the_kind")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
@pytest.mark.parametrize("steps", [1, 3])
def test_a_gpu_s_graphs_give_values_and_gradients(steps):
    own = shaken(Glow((3, 8, 8), levels=2, steps=steps, width=8, random_state=0), 0.1)
    own = own.eval().cuda()
    x = torch.randn(6, 5, 3, 8, 8, device="cuda")
    data = Incomplete.of(torch.where(torch.rand_like(x[0]) < 0.5, torch.nan, x[0]), device="cuda")
    plain, wrapped = (ConditionalTarget(f, data) for f in (own, Captured(own)))
    with full_precision():
        for y in x:
            expected, found = (differentiated(own, own.start(y)) for own in (plain, wrapped))
            for one, other in zip(expected, found, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
            with torch.no_grad():
                torch.testing.assert_close(log_prob(plain.flow, y), log_prob(wrapped.flow, y))
    assert len(wrapped.flow._passes) == 4


def test_nothing_is_collected_while_a_pass_is_recorded(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: nullcontext())
    (found,), replay = captured.record(lambda: (seen.append(gc.isenabled()) or torch.ones(2),))
    assert torch.equal(found, torch.ones(2))
    assert replay() == "replayed"
    assert seen == [False]
    assert gc.isenabled()


class FakeGraph:
    def replay(self):
        return "replayed"
