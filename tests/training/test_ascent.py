"""Steps that a GPU replays go where steps that are launched go.

A graph needs a GPU: here recording leaves all as it was, and a replay works again.
"""

import pytest
import torch
from torch.optim import AdamW

from plmcmc.flows import RealNVP, log_prob
from plmcmc.flows.passes import captured
from plmcmc.training.ascent import COMPILER, FIRST, Ascent, CaptureWarning
from plmcmc.training.resuming import moments_of

SIZES = [8, 8, 8, 3, 8, 8, 3, 8]


def batches():
    source = torch.Generator().manual_seed(0)
    return [torch.randn(size, 3, generator=source) for size in SIZES]


def ascent():
    flow = RealNVP(3, width=8, depth=1, random_state=0)
    return Ascent(flow, AdamW(flow.parameters(), lr=1e-2), clip=1.0)


def record_for(own, counted):
    def record(work):
        counted["captures"] += 1
        tensors = [*own.flow.parameters(), *moments_of(own.optimizer).values()]
        before = [tensor.detach().clone() for tensor in tensors]
        (kept,) = work()
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)

        def replay():
            counted["replays"] += 1
            kept.copy_(work()[0])

        return (kept,), replay

    return record


def test_replayed_steps_end_where_launched_ones_do(monkeypatch):
    plain, own = ascent(), ascent()
    own.capturable, counted = True, {"captures": 0, "replays": 0}
    monkeypatch.setattr(captured, "rehearse", lambda work: work())
    monkeypatch.setattr(captured, "record", record_for(own, counted))
    for batch in batches():
        torch.testing.assert_close(own(batch), plain(batch))
    for one, other in zip(own.flow.parameters(), plain.flow.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    # Odd batches, such as an epoch's last, are neither captured nor replayed.
    assert counted == {"captures": 1, "replays": SIZES.count(8) - FIRST}


def test_weights_say_that_a_replay_changed_them(monkeypatch):
    own = ascent()
    own.capturable = True
    monkeypatch.setattr(captured, "rehearse", lambda work: work())
    monkeypatch.setattr(captured, "record", lambda work: ((torch.zeros(()),), lambda: None))
    for batch in batches()[:3]:
        own(batch)
    before = [weight._version for weight in own.parameters]
    own(batches()[4])
    assert all(w._version > old for w, old in zip(own.parameters, before, strict=True))


def test_a_flow_that_cannot_be_captured_is_stepped_as_it_is(monkeypatch):
    def refuse(work):
        raise RuntimeError("operation not permitted when stream is capturing")

    plain, own = ascent(), ascent()
    own.capturable = True
    monkeypatch.setattr(captured, "rehearse", lambda work: work())
    monkeypatch.setattr(captured, "record", refuse)
    with pytest.warns(CaptureWarning, match="launching their operations one by one"):
        losses = [own(batch) for batch in batches()]
    torch.testing.assert_close(losses, [plain(batch) for batch in batches()])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
def test_a_gpu_s_graphs_step_alike():
    ends = []
    for capturable in (False, True):
        flow = RealNVP(3, width=8, depth=1, random_state=0).cuda()
        optimizer = AdamW(flow.parameters(), lr=torch.tensor(1e-2).cuda(), capturable=True)
        own = Ascent(flow, optimizer, clip=1.0)
        own.capturable = capturable
        for batch in batches():
            own(batch.cuda())
        assert (own.replay is not None) == capturable
        ends.append(log_prob(flow, batches()[0].cuda()).detach())
    torch.testing.assert_close(*ends)


# Torch uses what torch says not to use.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_compiler_knows_its_options():
    torch.compile(lambda x: x, options=COMPILER)
    with pytest.raises(RuntimeError, match="no_such_option"):
        torch.compile(lambda x: x, options={"no_such_option": False})
