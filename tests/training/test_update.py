"""Updates go where torch's own steps go: compiled or not, with copies in bfloat16 or without."""

import pytest
import torch
from torch import nn

from flow_cases import shaken
from plmcmc.flows import NICE, RealNVP, log_prob
from plmcmc.flows.passes.compiled import CompileWarning, Fused
from plmcmc.training.ascent import Ascent
from plmcmc.training.bfloat16_weights import Shadows
from plmcmc.training.maximise import maximise
from plmcmc.training.optimizers import OPTIMIZERS, optimizer_of
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


@pytest.mark.parametrize(
    ("name", "options", "precision", "clip"),
    [
        ("rmsprop", {"momentum": 0.9}, "bfloat16", None),
        ("rmsprop", {"momentum": 0.9, "weight_decay": 0.1}, "bfloat16", None),
        ("rmsprop", {"weight_decay": 0.1}, "float32", None),
        ("rmsprop", {"momentum": 0.9}, "bfloat16", 0.5),
        ("adamw", {"weight_decay": 0.1}, "bfloat16", 0.5),
        ("adamax", {}, "float32", None),
    ],
)
def test_compiled_steps_lead_where_others_do(name, options, precision, clip):
    ends = []
    for compiled in (False, True):
        flow = flow_of(NICE)
        optimizer = optimizer_of(name, list(flow.parameters()), 0.01, **options)
        with tracing():
            own = Ascent(flow, optimizer, clip=clip, precision=precision, compiled=compiled)
            for batch in batches():
                own(batch)
        ends.append(nn.utils.parameters_to_vector(flow.parameters()).detach())
    torch.testing.assert_close(*ends, rtol=0, atol=1e-4)
    # All of them have moved, by more than that.
    start = nn.utils.parameters_to_vector(flow_of(NICE).parameters()).detach()
    assert float((ends[0] - start).abs().mean()) > 5e-3


def test_updates_that_are_none_of_the_paper_s_are_torch_s_own():
    def ends(compiled):
        weights = [nn.Parameter(torch.linspace(-1, 1, 5)), nn.Parameter(torch.ones(3))]
        groups = [{"params": [weights[0]]}, {"params": [weights[1]], "lr": 0.5}]
        for optimizer in (
            torch.optim.RMSprop(groups, lr=0.1),
            torch.optim.RMSprop(weights, lr=0.1, centered=True),
        ):
            update = update_of(optimizer, compiled=compiled)
            for number in range(STEPS):
                for weight in weights:
                    weight.grad = weight.detach() ** 2 + number
                with torch.no_grad():
                    update()
        return torch.cat([weight.detach() for weight in weights])

    with tracing():
        found = ends(compiled=True)
    torch.testing.assert_close(found, ends(compiled=False))


def test_an_update_that_cannot_be_compiled_in_part_is_not_run_twice():
    def backend(graph, inputs):
        if "copy_" in graph.code:
            raise RuntimeError("no such kernel")
        return graph.forward

    flow = flow_of(NICE)
    optimizer = optimizer_of("adamax", list(flow.parameters()), 0.01)
    with tracing(backend), pytest.warns(CompileWarning, match="the update"):
        Ascent(flow, optimizer, precision="bfloat16", compiled=True)(batches()[0])
    assert {float(own["step"]) for own in optimizer.state.values()} == {1.0}


def test_the_paper_s_optimizer_is_compiled_whole():
    with tracing() as traces:
        flow = flow_of(NICE)
        optimizer = optimizer_of("rmsprop", list(flow.parameters()), 0.01, momentum=0.9)
        own = Ascent(flow, optimizer, precision="bfloat16", compiled=True)
        for batch in batches():
            own(batch)
    # The loss, and the update.
    assert len(traces) == 2


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rates_may_change_between_updates(name):
    def changing(compiled):
        def update_for(optimizer):
            update = update_of(optimizer, compiled=compiled)

            def changed():
                optimizer.param_groups[0]["lr"] *= 0.5
                update()

            return changed

        return update_for

    with tracing() as traces:
        found = walked(name, {}, changing(compiled=True))
    torch.testing.assert_close(found, walked(name, {}, changing(compiled=False)))
    # On a CPU the paper's own takes numbers only, and is compiled for each.
    assert len(traces) == (STEPS if name == "rmsprop" else 1)


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
    shadows = Shadows.of(flow)
    assert shadows is not None
    assert shadows.flow.log_scale is flow.log_scale
    assert {weight.dtype for weight in shadows.flow.shifts.parameters()} == {torch.bfloat16}
    assert {weight.dtype for weight in flow.parameters()} == {torch.float32}
    buffers = zip(shadows.flow.buffers(), flow.buffers(), strict=True)
    assert all(one is other for one, other in buffers)


@pytest.mark.parametrize(
    "flow",
    [nn.Sequential(nn.Linear(3, 3)), flow_of(NICE).double(), flow_of(NICE).requires_grad_(False)],
)
def test_flows_without_weights_to_copy_are_not_copied(flow):
    assert Shadows.of(flow) is None


def test_frozen_layers_stay_as_they_are():
    flow = flow_of(NICE)
    flow.shifts[0].requires_grad_(False)
    before = [weight.clone() for weight in flow.shifts[0].parameters()]
    learned = [weight for weight in flow.parameters() if weight.requires_grad]
    own = Ascent(flow, optimizer_of("adamw", learned, 0.01), precision="bfloat16")
    for batch in batches():
        own(batch)
    assert all(map(torch.equal, flow.shifts[0].parameters(), before))
    assert not torch.equal(flow.shifts[1][0].weight, flow_of(NICE).shifts[1][0].weight)


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
