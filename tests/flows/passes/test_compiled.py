"""Compiled flows are the same flows, compiled once; what cannot be compiled runs as it is.

What a compiler makes of a pass is torch's business: here a pass is traced, and run as traced.
"""

import pickle
from copy import deepcopy
from shutil import which

import numpy as np
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.autograd import forward_ad

import plmcmc
from flow_cases import shaken
from plmcmc.data import Incomplete
from plmcmc.flows import (
    NICE,
    Captured,
    Compiled,
    Linear,
    RealNVP,
    lowered,
    while_sampling,
)
from plmcmc.flows.passes import compiled
from plmcmc.flows.passes.grid import whole
from plmcmc.posterior import methods
from plmcmc.target import ConditionalTarget, NormalAuxiliary, Warp, differentiate
from toys import quiet
from tracing import tracing, without_a_compiler

FLOWS = {
    "nice": lambda: NICE(5, width=8, depth=2, latent="logistic", random_state=0),
    "realnvp": lambda: RealNVP(5, width=8, depth=1, random_state=0),
}


@pytest.fixture
def traced():
    with tracing() as traces:
        yield traces


def rows_of(count):
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("name", FLOWS)
def test_the_same_flow_traced_once_for_all_numbers_of_rows(name, precision, traced):
    flow = lowered(shaken(FLOWS[name](), 0.1).eval(), precision)
    fast = Compiled(flow)
    with torch.no_grad(), while_sampling():
        for count in (70, 300, 64):
            x = rows_of(count)
            for found, expected in (
                (fast.to_latent(x), flow.to_latent(x)),
                (fast.to_data(x), flow.to_data(x)),
                ((fast.latent_log_prob(x),), (flow.latent_log_prob(x),)),
            ):
                for one, other in zip(found, expected, strict=True):
                    torch.testing.assert_close(one, other, rtol=0, atol=0)
    # One whole trace for each of the three methods.
    assert len(traced) == 3


def test_slopes_are_the_flows_own(traced):
    flow = shaken(FLOWS["realnvp"](), 0.1).eval()
    fast, x = Compiled(flow), rows_of(3).requires_grad_()
    (slope,) = torch.autograd.grad(fast.to_latent(x)[0].sum(), x)
    (expected,) = torch.autograd.grad(flow.to_latent(x)[0].sum(), x)
    assert torch.equal(slope, expected)
    with torch.no_grad():
        ahead = torch.func.jvp(lambda x: fast.to_latent(x)[0], (x,), (torch.ones_like(x),))[1]
    torch.testing.assert_close(
        ahead, torch.func.jvp(lambda x: flow.to_latent(x)[0], (x,), (torch.ones_like(x),))[1]
    )
    assert not traced


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("name", FLOWS)
def test_densities_are_compiled_with_their_slopes(name, precision, traced):
    warp = Warp(*(number * torch.ones(5) for number in (0.1, 1.2, 0.3, 0.8)))
    for count in (70, 300):
        # E-steps lower the flow anew.
        flow = lowered(shaken(FLOWS[name](), 0.1).eval(), precision)
        data = Incomplete(rows_of(count), rows_of(count) > 0)
        with while_sampling():
            expected = differentiate(ConditionalTarget(flow, data, warp), data.values.flip(0))
            fast = ConditionalTarget(Captured(Compiled(flow)), data, warp)
            point, slope = differentiate(fast, data.values.flip(0))
        torch.testing.assert_close(point, expected[0])
        torch.testing.assert_close(slope, expected[1])
        assert bool((slope[~data.observed] != 0).all())
    assert len(traced) == 1


def test_slopes_of_weights_are_not_compiled(traced):
    flow = shaken(FLOWS["nice"](), 0.1).eval()
    data = Incomplete(rows_of(70), rows_of(70) > 0)
    differentiate(ConditionalTarget(Compiled(flow), data), data.values)
    # Of the position alone.
    assert [graph.sloped for graph in traced] == [1]
    assert all(own.requires_grad for own in flow.parameters())


def test_slopes_of_others_flows_are_not_compiled(traced):
    data = Incomplete(rows_of(70), rows_of(70) > 0)
    differentiate(ConditionalTarget(Compiled(Linear(5)), data), data.values)
    assert not traced


def test_a_way_back_that_cannot_be_compiled_is_gone_as_it_is():
    def refuse(graph, inputs):
        raise RuntimeError("no way back")

    def forward_only(graph, inputs):
        return aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=refuse)(
            graph, inputs
        )

    flow, data = FLOWS["realnvp"]().eval(), Incomplete(rows_of(70), rows_of(70) > 0)
    expected = differentiate(ConditionalTarget(flow, data), data.values)
    with tracing(forward_only):
        target = ConditionalTarget(Compiled(flow), data)
        with pytest.warns(compiled.CompileWarning, match="the density.*no way back"):
            found = differentiate(target, data.values)
        torch.testing.assert_close(found[1], expected[1])
        # Without another warning.
        differentiate(target, data.values)


# Torch's own compiler, not traces: it is who mixes things up.
for_real = (
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Torch's, of what torch uses.
    pytest.mark.skipif(which("g++") is None, reason="torch's own compiler needs a C++ compiler"),
)


def for_real_too(test):
    for mark in for_real:
        test = mark(test)
    return test


class Gated:
    """A number in an object, used as in torch's issue 194976."""

    def __init__(self, limit):
        self.limit = limit

    def __call__(self, x):
        gate, up = x.chunk(2, -1)
        gate = torch.nn.functional.silu(gate).clamp(max=self.limit)
        return gate * up.clamp(min=-self.limit, max=self.limit)


@for_real_too
def test_functions_of_objects_keep_their_own_numbers():
    torch.compiler.reset()
    x = (3 * rows_of(20)[:, :4]).requires_grad_()
    for limit in (1.0, 0.5, 0.25):
        ends = compiled.Fused(Gated(limit).__call__, "", dynamic=True)(x), Gated(limit)(x)
        torch.testing.assert_close(*ends)
        torch.testing.assert_close(*(torch.autograd.grad(own.sum(), x)[0] for own in ends))
    torch.compiler.reset()


@for_real_too
def test_flows_of_one_kind_keep_their_own_numbers():
    torch.compiler.reset()
    for scale, perturb in ((0.0, 0.5), (2.0, 0.1), (5.0, 0.3)):
        flow = shaken(NICE(5, width=8, depth=1, couplings=2, random_state=0), 0.1).eval()
        with torch.no_grad():
            flow.log_scale.sub_(scale)
        x = rows_of(8).numpy()
        x[:, 2:] = np.nan
        found = []
        for fast in (True, False):
            posterior = plmcmc.condition(flow, x, precision="bfloat16", compiled=fast)
            method = methods.Metropolis(perturb, 1.0 + perturb, NormalAuxiliary(np.exp(scale)))
            options = {"method": method, "random_state": 0, "warmup": 0}
            with quiet():
                found.append(posterior.sample(6, **options).values / np.exp(scale))
        # Steps of the grid, of which 2^21 are as wide as all samples.
        np.testing.assert_allclose(*found, atol=1e-4)
    torch.compiler.reset()


def test_rounding_is_exact_in_a_compiled_pass(traced):
    x = torch.cat([2.0 ** torch.arange(-30, 30) * sign * 1.37 for sign in (-1, 1)])
    found = compiled.Fused(whole, "rounding")(x.requires_grad_())
    assert torch.equal(found, x.round())
    assert torch.autograd.grad(found.sum(), x)[0].tolist() == [1.0] * len(x)


def test_tangents_go_through_the_flow_itself(traced):
    flow = lowered(shaken(FLOWS["nice"](), 0.1).eval(), "bfloat16")
    x, slopes = rows_of(3), []
    for own in (flow, Compiled(flow)):
        with forward_ad.dual_level(), torch.no_grad():
            z = own.to_latent(forward_ad.make_dual(x, torch.ones_like(x)))[0]
            slopes.append(forward_ad.unpack_dual(z).tangent)
    assert torch.equal(*slopes)
    assert not traced


def test_copies_compile_their_own_weights(traced):
    fast, x = Compiled(shaken(FLOWS["nice"](), 0.1).eval()), rows_of(3)
    with torch.no_grad():
        fast.to_latent(x)
        for other in (deepcopy(fast), pickle.loads(pickle.dumps(fast))):
            other.flow.log_scale.add_(1.0)
            assert not torch.equal(other.to_latent(x)[0], fast.to_latent(x)[0])


def test_what_cannot_be_compiled_runs_as_it_is():
    flow = FLOWS["nice"]().eval()
    x = rows_of(4)
    with torch.no_grad(), without_a_compiler():
        fast = Compiled(flow)
        with pytest.warns(compiled.CompileWarning, match="to_latent.*no C compiler"):
            found = fast.to_latent(x)[0]
        assert torch.equal(found, flow.to_latent(x)[0])
        # Without another warning.
        fast.to_latent(x)


def test_too_little_memory_is_said():
    with torch.no_grad(), without_a_compiler(torch.OutOfMemoryError):
        fast = Compiled(FLOWS["nice"]().eval())
        with pytest.raises(torch.OutOfMemoryError):
            fast.to_latent(rows_of(4))


def test_functions_of_one_code_are_compiled_each_for_itself(traced):
    # Torch gives up after eight.
    works = [compiled.Fused(compiled.with_own_code(lambda x, k=k: x + k), "") for k in range(12)]
    for k, work in enumerate(works):
        assert work(torch.ones(2)).tolist() == [1 + k, 1 + k]
    assert len(traced) == len(works)


def test_conditionals_may_be_compiled(traced):
    flow = shaken(FLOWS["realnvp"](), 0.1).eval()
    x = rows_of(3).numpy()
    x[:, 2:] = np.nan
    options = {"method": methods.CrankNicolson(0.5), "random_state": 0, "warmup": 5}
    with quiet():
        found = plmcmc.condition(flow, x, compiled=True).sample(5, **options)
        expected = plmcmc.condition(flow, x).sample(5, **options)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-6)
    assert traced


def test_contexts_cannot_be_compiled():
    class Family:
        def given(self, context):
            return FLOWS["realnvp"]()

    with pytest.raises(TypeError, match="without contexts"):
        plmcmc.condition(Family(), rows_of(3).numpy(), context=[0, 1, 2], compiled=True)
