"""Steps that encode only what may still be accepted: the same chain, and fewer passes."""

import math

import pytest
import torch

import plmcmc
from exact import FLOWS, begin
from plmcmc.chains import EarlyRejection, Replayed, early_rejection, stepper_of
from plmcmc.data import Incomplete
from plmcmc.flows import Captured, Compiled
from plmcmc.flows.nice import most_log_prob
from plmcmc.flows.passes.wrapped import Wrapped
from plmcmc.kernels import Metropolis, Mixture, Perturb, Resample
from plmcmc.kernels.half_steps import SLACK, first_half, most_of
from plmcmc.rng import Streams
from plmcmc.target import FlatAuxiliary, NormalAuxiliary, ProjectedLatentTarget
from toys import quiet
from tracing import tracing

ROWS, STEPS = 300, 30
PAPER = Mixture((Perturb(0.05), Resample(1.0)), (0.5, 0.5))


def kernel(rows=ROWS, auxiliary=None, wrap=lambda flow: flow, name="nice-logistic", proposal=PAPER):
    flow = FLOWS[name]()
    begun = begin(flow, rows=rows)
    target = ProjectedLatentTarget(wrap(flow), begun.data, auxiliary or NormalAuxiliary(0.01))
    own = Metropolis(target, proposal)
    # At samples, as the paper's chains begin.
    return own, own.init(begun.start)


def drawing(rows=ROWS):
    return Streams.of_rows(3, "steps", rows)


def walked(stepper, state, steps=STEPS, streams=None):
    streams, seen = streams or drawing(len(state.completion)), []
    with torch.no_grad():
        for _ in range(steps):
            state, info = stepper.step(state, streams)
            seen.append([part.clone() for part in (*state, info.accepted)] + [info.passes])
    return seen


def same(one, other):
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for parts in zip(one, other, strict=True)
        for a, b in zip(*parts, strict=True)
    )


class Counting(Wrapped):
    """A flow that counts the rows that it encodes."""

    def __init__(self, flow):
        super().__init__(flow)
        self.rows = 0

    def _call(self, name, x):
        self.rows += len(x) if name == "to_latent" else 0
        return getattr(self.flow, name)(x)


def small(flow):
    """Shrink all volumes: what a log-determinant is left out of shows."""
    with torch.no_grad():
        flow.log_scale.fill_(-5.0)
    return flow


CASES = {
    "tight": {"auxiliary": NormalAuxiliary(0.01)},
    "wide": {"auxiliary": NormalAuxiliary(2)},
    "flat": {"auxiliary": FlatAuxiliary()},
    "small volumes": {"auxiliary": NormalAuxiliary(2), "wrap": small, "proposal": Perturb(0.3)},
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_chain(case):
    own, state = kernel(**CASES[case])
    expected = walked(own, state)
    moved = sum(int(parts[3].sum()) for parts in expected)
    assert 0 < moved < ROWS * STEPS
    stepper = stepper_of(own, state)
    assert isinstance(stepper, EarlyRejection)
    assert same(walked(stepper, state), expected)


def test_who_is_not_looked_at_has_no_ratio():
    """Nor that of a step before: in every step only some are looked at."""
    own, state = kernel()
    stepper, here, there = stepper_of(own, state), state, state
    streams, others, skipped = drawing(), drawing(), 0
    with torch.no_grad():
        for _ in range(STEPS):
            here, info = stepper.step(here, streams)
            there, expected = own.step(there, others)
            out = info.log_ratio == -torch.inf
            assert torch.equal(info.log_ratio[~out], expected.log_ratio[~out])
            assert not bool(expected.accepted[out].any())
            skipped += int(out.sum())
    # As in `test_few_rows_are_encoded`.
    assert skipped > 0.5 * ROWS * STEPS


def test_what_a_proposal_owes_is_counted():
    """Narrow fresh draws owe nothing where a chain stands at the peak: they are owed."""
    flow = FLOWS["nice-logistic"]()
    seen = begin(flow, rows=ROWS).data.observed
    with torch.no_grad():
        peak = flow.to_data(torch.zeros(ROWS, seen.shape[1]).double())[0]
        data = Incomplete(torch.where(seen, peak, 0.0), seen)
        target = ProjectedLatentTarget(flow, data, NormalAuxiliary(0.1))
        own, streams, before = Metropolis(target, Resample(0.1)), drawing(), drawing()
        state = own.init(peak)
        trial = first_half(own, most_of(own), state, streams)
        expected = own.step(state, before)[1].accepted
    hopeful = trial.order[: int(trial.hopeful)]
    assert int(expected.sum()) > ROWS / 2
    assert int(expected[hopeful].sum()) == int(expected.sum())


def test_a_state_from_elsewhere_is_taken():
    own, state = kernel()
    other = own.init(own.target.flow.to_data(torch.zeros_like(state.position))[0].detach())
    stepper, streams, others = stepper_of(own, state), drawing(), drawing()
    assert same(walked(stepper, state, streams=streams), walked(own, state, streams=others))
    assert same(walked(stepper, other, streams=streams), walked(own, other, streams=others))


class Units(torch.nn.Module):
    """Somebody's own flow that passes on what it does not know: in units a thousandth as large."""

    def __init__(self, flow):
        super().__init__()
        self.flow = flow

    def to_latent(self, x):
        z, log_det = self.flow.to_latent(1000 * x)
        return z, log_det + x.shape[1] * math.log(1000)

    def to_data(self, z):
        x, log_det = self.flow.to_data(z)
        return x / 1000, log_det - x.shape[1] * math.log(1000)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.flow, name)


class Narrow(plmcmc.NICE):
    """A subclass with latents of its own."""

    def latent_log_prob(self, z):
        return super().latent_log_prob(50 * z) + z.shape[1] * math.log(50)


@pytest.mark.parametrize("other", [Units(plmcmc.NICE(4, width=8)), Narrow(4, width=8)])
def test_flows_of_others_have_no_bound(other):
    assert most_log_prob(Captured(plmcmc.NICE(4, width=8))) is not None
    assert most_log_prob(other) is None


def test_few_rows_are_encoded():
    own, state = kernel(wrap=Counting)
    counter, before = own.target.flow, own.target.flow.rows
    walked(stepper_of(own, state), state)
    # The smallest size most of the time: of 300 rows 64, where all would be 300.
    assert (counter.rows - before) / STEPS < 0.5 * ROWS


def test_a_bound_that_is_too_low_is_noticed():
    """A control: who is refused too early is missed."""
    own, state = kernel(auxiliary=NormalAuxiliary(0.5))
    expected = walked(own, state)
    assert not same(walked(EarlyRejection(own, most_of(own) - 20), state), expected)


def test_nobody_lies_above_the_bound():
    for latent in ("normal", "logistic"):
        flow = plmcmc.NICE(4, width=8, latent=latent, random_state=0)
        with torch.no_grad():
            flow.log_scale.copy_(torch.tensor([0.5, -1.0, 2.0, 0.1]))
            x, log_det = flow.to_data(torch.zeros(1, 4))
            highest = flow.latent_log_prob(torch.zeros(1, 4)) - log_det
            # Reached where latents are zero, and nowhere else.
            assert float(most_log_prob(flow)) == pytest.approx(float(highest), abs=1e-6)
            others = plmcmc.flows.log_prob(flow, x + torch.randn(1000, 4))
        assert bool((others < most_log_prob(flow) + SLACK).all())


def test_others_have_no_halves():
    own, state = kernel(name="realnvp")
    assert stepper_of(own, state) is own
    own, state = kernel(rows=100)
    assert stepper_of(own, state) is own
    noisy, state = kernel()
    data = noisy.target.data
    data = Incomplete(data.values, data.observed, torch.full_like(data.values, 0.1))
    target = ProjectedLatentTarget(noisy.target.flow, data, NormalAuxiliary(0.01))
    assert most_of(Metropolis(target, PAPER)) is None
    assert most_of(Metropolis(noisy.target, PAPER, gradient=True)) is None


def test_where_a_proposal_overflows_the_chain_stays():
    own, state = kernel(auxiliary=FlatAuxiliary())

    class Overflowing(Wrapped):
        def _call(self, name, x):
            z, log_det = getattr(self.flow, name)(x)
            return z, torch.full_like(log_det, torch.nan) if name == "to_latent" else log_det

        def latent_log_prob(self, z):
            return self.flow.latent_log_prob(z)

    target = ProjectedLatentTarget(Overflowing(own.target.flow), own.target.data, FlatAuxiliary())
    stepper = stepper_of(Metropolis(target, PAPER), state)
    assert not any(bool(parts[3].any()) for parts in walked(stepper, state))


@pytest.mark.parametrize("hopeful", [0, 1, 64, 65, 300])
def test_sizes_hold_those_who_hope(hopeful):
    size = early_rejection.size_for(hopeful, 300)
    assert max(hopeful, 64) <= size <= min(300, hopeful + 64)
    assert early_rejection.size_for(hopeful, 100_000) == 6250


@pytest.mark.parametrize("wrap", [lambda flow: flow, lambda flow: Captured(Compiled(flow))])
def test_both_halves_are_traced_once(wrap):
    own, state = kernel()
    expected = walked(own, state)
    with tracing() as traces:
        for _ in range(3):
            # As every E-step makes them: another kernel of another flow.
            other, _ = kernel(wrap=wrap)
            assert same(walked(stepper_of(other, state, compiled=True), state), expected)
    halves = [trace for trace in traces if "argsort" in trace.code or "index_copy" in trace.code]
    assert 2 <= len(halves) <= 4


class Recorder:
    """Records as a GPU would: nothing is done then, and a replay writes to the same places."""

    def __init__(self, monkeypatch, refuses=None):
        self.records = self.replays = 0
        self.refuses = refuses
        monkeypatch.setattr(early_rejection, "rehearse", lambda work: work())
        monkeypatch.setattr(early_rejection, "record", self.record)

    def record(self, work, generators=()):
        self.records += 1
        if self.refuses is not None:
            for source in generators:
                # As a failed recording spoils them.
                source.manual_seed(99)
            raise self.refuses("cannot be recorded")
        found = []

        def replay():
            self.replays += 1
            new = work()
            if new is not None:
                for old, part in zip(found[0], new, strict=True):
                    old.copy_(part)

        # What a recording leaves has its shapes, and no numbers yet.
        states = [source.get_state() for source in generators]
        if generators:
            found.append(type(made := work())(*(part.clone() for part in made)))
        for source, state in zip(generators, states, strict=True):
            source.set_state(state)
        return (found[0] if found else None), replay


# Flat: of one size from the first step on.
@pytest.mark.parametrize("case", ["tight", "flat"])
def test_a_gpu_replays_both_halves(monkeypatch, case):
    recorder, (own, state) = Recorder(monkeypatch), kernel(rows=128, **CASES[case])
    stepper = EarlyRejection(own, most_of(own), replay=True)
    assert same(walked(stepper, state), walked(own, state))
    # The first half, and the second of some sizes.
    assert 2 <= recorder.records <= 1 + early_rejection.SIZES
    assert recorder.replays > STEPS
    with pytest.raises(
        ValueError, match="only use the random streams that they were recorded with"
    ):
        walked(stepper, state)


def test_what_cannot_be_recorded_runs_as_it_is(monkeypatch):
    recorder, (own, state) = Recorder(monkeypatch, refuses=RuntimeError), kernel()
    assert same(walked(EarlyRejection(own, most_of(own), replay=True), state), walked(own, state))
    assert (recorder.records, recorder.replays) == (1, 0)


def test_too_little_memory_to_record_is_said(monkeypatch):
    Recorder(monkeypatch, refuses=torch.OutOfMemoryError)
    own, state = kernel()
    with pytest.raises(torch.OutOfMemoryError):
        walked(EarlyRejection(own, most_of(own), replay=True), state)


def test_chunks_do_not_change_draws():
    flow = FLOWS["nice-logistic"]().float()
    begun = begin(FLOWS["nice-logistic"](), rows=200)
    rows, observed = begun.truth.float().numpy(), begun.data.observed.numpy()
    # Chunks of 64 are too small for halves, and 200 rows are not.
    options = {"method": "metropolis", "random_state": 0, "warmup": 4, "chains": 1}
    with quiet():
        asked = plmcmc.condition(flow, rows, observed)
        whole, parts = asked.sample(6, **options), asked.sample(6, chunk_rows=64, **options)
    assert (whole.values == parts.values).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gpu_s_graphs_step_alike(compiled):
    own, state = kernel()
    flow, data = own.target.flow.cuda(), own.target.data
    data = Incomplete(data.values.cuda(), data.observed.cuda())
    state = type(state)(*(part.cuda() for part in state))
    own = Metropolis(ProjectedLatentTarget(flow, data, NormalAuxiliary(0.01)), PAPER)

    def steps(stepper):
        streams, seen = Streams.of_rows(3, "steps", ROWS, device="cuda"), []
        here = state
        with torch.no_grad():
            for _ in range(STEPS):
                here, info = stepper.step(here, streams)
                seen.append([part.clone() for part in (*here, info.accepted)])
        return seen

    stepper = stepper_of(own, state, compiled=compiled)
    for one, other in zip(steps(Replayed(own)), steps(stepper), strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b)
    assert stepper.possible
