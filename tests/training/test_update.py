"""Updates go where torch's own steps go: compiled or not, with copies in bfloat16 or without."""

import pytest
import torch
from torch import nn

from flow_cases import shaken
from plmcmc.flows import NICE, RealNVP, log_prob
from plmcmc.flows.compiled import CompileWarning, Fused
from plmcmc.training.ascent import Ascent
from plmcmc.training.maximise import maximise
from plmcmc.training.optimizers import OPTIMIZERS, optimizer_of
from plmcmc.training.shadows import Shadows
from plmcmc.training.update import update_of
from tracing import tracing, without_a_compiler

STEPS = 4
OPTIONS = [(name, {}) for name in OPTIMIZERS] + [("rmsprop", {"momentum": 0.9})]


def walked(name, options, update_for=lambda optimizer: optimizer.step, used=2):
    """Return where some steps lead two weights, of which as many are used as said."""
    weights = [nn.Parameter(torch.linspace(-1, 1, 5)), nn.Parameter(torch.ones(3))]
    optimizer = optimizer_of(name, weights, 0.1, **options)
    update = update_for(optimizer)
    for number in range(STEPS):
        for weight in weights[:used]:
            weight.grad = weight.detach() ** 2 + number
        with torch.no_grad():
            update()
    return torch.cat([weight.detach() for weight in weights])


@pytest.mark.parametrize("used", [1, 2])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_compiled_updates_are_torch_s_own_steps(name, options, used):
    expected = walked(name, options, used=used)
    with tracing() as traces:
        found = walked(name, options, lambda own: update_of(own, compiled=True), used)
    torch.testing.assert_close(found, expected)
    assert traces
    assert not torch.equal(expected[:5], torch.linspace(-1, 1, 5))
    assert torch.equal(expected[5:], torch.ones(3)) == (used == 1)


def test_the_paper_s_optimizer_is_compiled_whole():
    with tracing() as traces:
        flow = flow_of(NICE)
        optimizer = optimizer_of("rmsprop", list(flow.parameters()), 0.01, momentum=0.9)
        own = Ascent(flow, optimizer, precision="bfloat16", compiled=True)
        for batch in batches():
            own(batch)
    # The loss, and the update.
    assert len(traces) == 2


def test_rates_may_change_between_updates():
    def changing(compiled):
        def update_for(optimizer):
            update = update_of(optimizer, compiled=compiled)

            def changed():
                optimizer.param_groups[0]["lr"] *= 0.5
                update()

            return changed

        return update_for

    with tracing():
        found = walked("rmsprop", {}, changing(compiled=True))
    torch.testing.assert_close(found, walked("rmsprop", {}, changing(compiled=False)))


def test_without_a_compiler_updates_are_launched():
    with without_a_compiler(), pytest.warns(CompileWarning, match="the update.*no C compiler"):
        found = walked("rmsprop", {}, lambda own: update_of(own, compiled=True))
    torch.testing.assert_close(found, walked("rmsprop", {}))


def flow_of(maker):
    return shaken(maker(6, width=8, random_state=0), 0.1).train()


def batches():
    source = torch.Generator().manual_seed(0)
    return [torch.randn(10, 6, generator=source) for _ in range(STEPS)]


def trained_by_autocast(maker, name, clip):
    """Return a flow trained as torch's guide to lower precision says."""
    flow = flow_of(maker)
    optimizer = optimizer_of(name, list(flow.parameters()), 0.01)
    for batch in batches():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            loss = -log_prob(flow, batch).mean()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(flow.parameters(), clip)
        optimizer.step()
    return flow


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("name", ["adamw", "rmsprop"])
@pytest.mark.parametrize("maker", [NICE, RealNVP])
def test_copies_in_bfloat16_train_as_autocast_does(maker, name, clip):
    expected = trained_by_autocast(maker, name, clip)
    flow = flow_of(maker)
    own = Ascent(
        flow,
        optimizer_of(name, list(flow.parameters()), 0.01),
        clip=clip,
        precision="bfloat16",
    )
    for batch in batches():
        own(batch)
    for found, wanted in zip(flow.parameters(), expected.parameters(), strict=True):
        assert found.dtype == torch.float32
        assert torch.equal(found, wanted)


def test_copies_follow_weights_that_others_change():
    flows = [flow_of(NICE), flow_of(NICE)]
    other = flow_of(NICE)
    with torch.no_grad():
        other.shifts[0][0].weight.add_(1.0)
    ends = []
    for late, flow in enumerate(flows):
        optimizer = optimizer_of("adamw", list(flow.parameters()), 0.0)
        if not late:
            flow.load_state_dict(other.state_dict())
        own = Ascent(flow, optimizer, precision="bfloat16")
        if late:
            flow.load_state_dict(other.state_dict())
        source = torch.Generator().manual_seed(0)
        ends.append(maximise(own, torch.cat(batches()), batch_size=10, generator=source))
    assert torch.equal(*ends)


def test_all_but_conditioners_is_shared():
    flow = flow_of(NICE)
    shadows = Shadows(flow)
    assert shadows.flow.log_scale is flow.log_scale
    assert {weight.dtype for weight in shadows.flow.shifts.parameters()} == {torch.bfloat16}
    assert {weight.dtype for weight in flow.parameters()} == {torch.float32}
    buffers = zip(shadows.flow.buffers(), flow.buffers(), strict=True)
    assert all(one is other for one, other in buffers)


def test_flows_of_others_have_no_copies():
    flow = nn.Sequential(nn.Linear(3, 3))
    assert Shadows(flow).learned == []


def test_copies_are_in_the_mode_of_the_flow():
    flow = flow_of(NICE)
    own = Ascent(flow, optimizer_of("adamw", list(flow.parameters()), 0.01), precision="bfloat16")
    flow.eval()
    own(batches()[0])
    assert own.shadows is not None
    assert not own.shadows.flow.training


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compiled graphs need a GPU")
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_a_gpu_s_compiled_steps_step_alike(precision):
    ends = []
    for compiled in (False, True):
        flow = flow_of(NICE).cuda()
        optimizer = optimizer_of("rmsprop", list(flow.parameters()), 1e-3, momentum=0.9)
        own = Ascent(flow, optimizer, precision=precision, compiled=compiled)
        own.renew()
        for batch in 2 * batches():
            own(batch.cuda())
        assert own.replay is not None
        assert isinstance(own._loss_of, Fused) == compiled
        ends.append(log_prob(flow.eval(), batches()[0].cuda()).detach())
    torch.testing.assert_close(*ends, rtol=1e-2, atol=1e-2)
