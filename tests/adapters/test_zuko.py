"""zuko's flows with contexts and on a GPU; zuko is never imported for those who do not use it."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import zuko
from torch import nn

from flow_cases import CASES as OWN
from flow_cases import DTYPES, rows_of, shaken
from plmcmc.adapters import adapt
from plmcmc.flows import BrokenFlow, ContextualFlow, Flow, check_flow, log_prob

FEATURES, CONTEXT, ROWS = 4, 2, 10


def spline(context: int = 0):
    return zuko.flows.NSF(FEATURES, context, bins=4, transforms=2, hidden_features=[16])


def autoregressive(context: int = 0):
    return zuko.flows.MAF(FEATURES, context, transforms=2, hidden_features=[16])


def coupled(context: int = 0):
    return zuko.flows.MAF(FEATURES, context, transforms=2, passes=2, hidden_features=[16])


def additive(context: int = 0):
    return zuko.flows.NICE(FEATURES, context, transforms=3, hidden_features=[16])


def affine(context: int = 0):
    return zuko.flows.RealNVP(FEATURES, context, transforms=3, hidden_features=[16])


class Derived(zuko.flows.MAF):
    """A flow that a user derived from zuko's."""


def derived(context: int = 0):
    return Derived(FEATURES, context, transforms=1, hidden_features=[16])


CASES = {build.__name__: build for build in (spline, autoregressive, coupled, additive, affine)}
CASES["derived"] = derived


def built(build, context: int = 0, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Return a zuko flow with weights that are fixed and off zero."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return shaken(build(context), 0.2).to(dtype).eval()


def contexts(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(ROWS, CONTEXT, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_a_zuko_flow_given_contexts_keeps_its_promises(build, dtype):
    family = adapt(built(build, CONTEXT, dtype))
    assert isinstance(family, ContextualFlow)
    assert not isinstance(family, Flow)
    flow = family.given(contexts(dtype))
    assert check_flow(flow, rows_of(flow, ROWS)).skipped == ()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_a_zuko_flow_keeps_its_promises_on_a_gpu(build):
    before = torch.get_rng_state(), torch.cuda.get_rng_state()
    x = rows_of(adapt(built(build)), ROWS)
    assert check_flow(adapt(built(build).cuda()), x).skipped == ()
    flow = adapt(built(build, CONTEXT).cuda()).given(contexts().cuda())
    assert check_flow(flow, x).skipped == ()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(torch.cuda.get_rng_state(), before[1])


def test_a_circular_flow_stays_on_its_circle():
    # zuko's log_prob goes round and round: draws would leave, and fail their calibration.
    flow = built(lambda context: zuko.flows.NCSF(FEATURES, bins=4, transforms=1))
    x = rows_of(adapt(flow), ROWS)
    assert torch.isfinite(log_prob(adapt(flow), x)).all()
    turned = x + 2 * torch.pi * torch.eye(FEATURES)[0]
    assert torch.isfinite(flow().log_prob(turned)).all()
    assert (log_prob(adapt(flow), turned) == -torch.inf).all()


@pytest.mark.parametrize("context", [0, CONTEXT])
def test_the_density_is_zukos(context):
    flow = built(spline, context)
    given = contexts()
    adapted = adapt(flow).given(given) if context else adapt(flow)
    x = rows_of(adapted, ROWS)
    expected = (flow(given) if context else flow()).log_prob(x)
    torch.testing.assert_close(log_prob(adapted, x).float(), expected)


def test_each_row_is_conditioned_on_its_own_context():
    family, given = adapt(built(affine, CONTEXT)), contexts()
    x = rows_of(family.given(given), ROWS)
    z, log_det = family.given(given).to_latent(x)
    for row in range(ROWS):
        alone = family.given(given[row : row + 1]).to_latent(x[row : row + 1])
        torch.testing.assert_close(alone[0][0], z[row])
        torch.testing.assert_close(alone[1][0], log_det[row])
    other, _ = family.given(given.flip(0)).to_latent(x)
    assert (other != z).any(1).all()


def test_contexts_in_the_wrong_places_are_noticed():
    family = adapt(built(affine, CONTEXT))
    flow, given = family.given(contexts()), contexts()

    class Misplaced:
        to_data, latent_log_prob = flow.to_data, flow.latent_log_prob
        latent_sample = flow.latent_sample

        def to_latent(self, x):
            return family.given(given.flip(0)[: len(x)]).to_latent(x)

    with pytest.raises(BrokenFlow, match="to_data undoes to_latent"):
        check_flow(Misplaced(), rows_of(flow, ROWS))


@pytest.mark.parametrize("context", [0, CONTEXT])
def test_latents_come_from_the_generator_and_leave_torchs_alone(context, monkeypatch):
    def refuse(seed):
        raise AssertionError(f"the GPUs' generators were seeded with {seed}")

    flow = adapt(built(affine, context))
    flow = flow.given(contexts()) if context else flow
    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    before = torch.get_rng_state()
    source = torch.Generator().manual_seed(0)
    first, second = flow.latent_sample(ROWS, source), flow.latent_sample(ROWS, source)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.shape == (ROWS, FEATURES)
    assert not torch.equal(first, second)
    torch.rand(7)
    source.manual_seed(0)
    assert torch.equal(flow.latent_sample(ROWS, source), first)
    assert torch.equal(flow.latent_sample(ROWS, source), second)


def test_torchs_generator_is_put_back_when_zuko_fails():
    flow = adapt(built(affine))
    before = torch.get_rng_state()
    with pytest.raises((TypeError, RuntimeError)):
        flow.latent_sample("many", torch.Generator())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("build", OWN.values(), ids=OWN)
def test_our_own_flows_pass_through(build):
    flow = build()
    assert adapt(flow) is flow


def test_anything_with_the_methods_passes_through():
    flow = OWN["linear"]()

    class Plain:
        to_latent, to_data = flow.to_latent, flow.to_data
        latent_log_prob, latent_sample = flow.latent_log_prob, flow.latent_sample

    class Family:
        def given(self, context):
            return flow

    for thing in (Plain(), Family()):
        assert adapt(thing) is thing


@pytest.mark.parametrize("thing", [nn.Linear(2, 2), object(), None, "flow", torch.zeros(2)])
def test_what_is_no_flow_is_refused_in_words(thing):
    name = f"{type(thing).__module__}.{type(thing).__name__}"
    message = f"{name} is not a flow that plmcmc knows: pass one of plmcmc, zuko, nflows, normflow"
    with pytest.raises(TypeError, match=message):
        adapt(thing)


@pytest.mark.parametrize(
    "build", [lambda: zuko.mixtures.GMM(3), lambda: zuko.nn.MLP(2, 2), lambda: spline()()]
)
def test_what_is_zukos_but_no_flow_is_refused_in_words(build):
    with pytest.raises(TypeError, match=r"is not a zuko flow: pass zuko\.flows\.NSF"):
        adapt(build())


@pytest.mark.parametrize(
    ("thing", "hint"),
    [
        ("digits-flow", r"read by plmcmc\.load\(path\)"),
        (Path("digits-flow"), r"read by plmcmc\.load\(path\)"),
        (SimpleNamespace(flow=spline()), r"the \.flow of this SimpleNamespace\?"),
        (torch.distributions.Normal(0.0, 1.0), r"TransformedDistribution\(distribution, \[\]\)"),
    ],
)
def test_what_may_have_been_meant_is_said(thing, hint):
    with pytest.raises(TypeError, match=f"is not a flow that plmcmc knows.*{hint}"):
        adapt(thing)


def test_no_library_is_ever_imported_by_us():
    # Importing zuko switches off the validation of torch.distributions, everywhere.
    program = """
import sys, torch
import plmcmc, plmcmc.adapters
for name in ("zuko", "nflows", "normflows", "freia", "distributions", "flowjax"):
    __import__("plmcmc.adapters." + name)
plmcmc.adapt(plmcmc.Linear(2))
for name in plmcmc.__all__:
    getattr(plmcmc, name)
foreign = {"zuko", "nflows", "normflows", "FrEIA", "pyro", "flowjax", "jax"} & set(sys.modules)
assert not foreign, foreign
try:
    torch.distributions.Normal(0.0, -1.0)
except ValueError:
    print("validated")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "validated"
