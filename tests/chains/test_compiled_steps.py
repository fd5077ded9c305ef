"""Steps that are compiled whole: the same chain, number for number, traced once."""

import pytest
import torch

import plmcmc
from exact import FLOWS, begin
from plmcmc.chains import CompiledSteps
from plmcmc.flows import Captured, Compiled
from plmcmc.kernels import CrankNicolson, Info, Metropolis, Mixture, Perturb, Resample, Turns
from plmcmc.rng import Streams
from plmcmc.target import NormalAuxiliary, ProjectedLatentTarget
from toys import quiet
from tracing import tracing

STEPS = 8
PROPOSALS = {
    "paper": Mixture((Perturb(0.3), Resample(1.0)), (0.5, 0.5)),
    "perturb": Perturb(0.3),
    "turns": Turns(),
    "pcn": CrankNicolson(0.4),
}


def kernel(proposal, rows=20, wrap=lambda flow: flow):
    begun = begin(FLOWS["realnvp"](), rows=rows)
    target = ProjectedLatentTarget(wrap(FLOWS["realnvp"]()), begun.data, NormalAuxiliary(0.5))
    own = Metropolis(target, proposal)
    return own, own.init(begun.truth)


def walked(stepper, state, rows=20):
    streams, seen = Streams.of_rows(3, "steps", rows), []
    with torch.no_grad():
        for _ in range(STEPS):
            state, info = stepper.step(state, streams)
            seen.append((state.completion.clone(), info.accepted.clone(), info.passes))
    return seen


def same(one, other):
    return all(
        torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) and a[2] == b[2]
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("name", PROPOSALS)
def test_the_same_steps_traced_as_one(name):
    own, state = kernel(PROPOSALS[name])
    expected = walked(own, state)
    with tracing() as traces:
        assert same(walked(CompiledSteps(own), state), expected)
    assert len(traces) == 1
    # They do move, and other numbers would lead elsewhere.
    assert any(bool(accepted.any()) for _, accepted, _ in expected)


def layers(trace):
    return trace.code.count("linear(")


@pytest.mark.parametrize("wrap", [Compiled, lambda flow: Captured(Compiled(flow))])
def test_one_trace_for_all_numbers_of_rows(wrap):
    with tracing() as traces:
        for rows in (20, 33, 70):
            own, state = kernel(PROPOSALS["paper"], rows, wrap)
            plain, begun = kernel(PROPOSALS["paper"], rows)
            assert same(walked(CompiledSteps(own), state, rows), walked(plain, begun, rows))
    # Passes of the first step are traced apart; steps have two in one.
    most = max(map(layers, traces))
    assert [layers(trace) for trace in traces].count(most) == 1


class Dear:
    """Asks for numbers of another kind, or costs many passes."""

    def __init__(self, own, passes=2, *, draws=False):
        self.own, self.passes, self.draws = own, passes, draws

    def step(self, state, streams):
        if self.draws:
            streams.draw(lambda rows, source: torch.zeros(rows))
        state, info = self.own.step(state, streams)
        return state, info._replace(passes=self.passes)


@pytest.mark.parametrize("options", [{"passes": 30}, {"draws": True}])
def test_others_run_as_they_are(options):
    own, state = kernel(PROPOSALS["paper"])
    expected = walked(Dear(own, **options), state)
    with tracing() as traces:
        assert same(walked(CompiledSteps(Dear(own, **options)), state), expected)
    assert not traces


def test_sampling_compiles_whole_steps():
    begun = begin(FLOWS["realnvp"](), rows=3)
    rows, observed = begun.data.values.numpy(), begun.data.observed.numpy()
    options = {"method": "metropolis", "random_state": 0, "warmup": 4, "chains": 2}
    with quiet():
        expected = plmcmc.condition(FLOWS["realnvp"](), rows, observed).sample(6, **options)
        with tracing() as traces:
            own = plmcmc.condition(FLOWS["realnvp"](), rows, observed, compiled=True)
            found = own.sample(6, **options)
    assert (found.values == expected.values).all()
    found = sorted(set(map(layers, traces)) - {0})
    # Passes, and steps of two of them.
    assert found == [found[0], 2 * found[0]]


def test_a_kernel_that_asks_for_other_numbers_is_refused():
    class Fickle:
        """Asks for normals first, and for uniforms from then on."""

        asked = 0

        def step(self, state, streams):
            self.asked += 1
            draw = streams.normal if self.asked == 1 else streams.uniform
            return state, Info(state[0] > 0, draw(state[0]), 2)

    stepper, streams = CompiledSteps(Fickle()), Streams.of_rows(0, "steps", 20)
    state = (torch.zeros(20),)
    with tracing():
        stepper.step(state, streams)
    # As torch would trace it.
    numbers = [asked.drawn(state, streams) for asked in stepper._asked]
    with pytest.raises(
        ValueError, match="random numbers of the same kinds and shapes at every step"
    ):
        stepper._from_numbers(state, numbers)
