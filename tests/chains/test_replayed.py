"""Steps that are replayed: the same chain, number for number.

A graph needs a GPU; here a replay works through the step again, in the same tensors.
"""

from typing import NamedTuple

import pytest
import torch

import plmcmc.chains.replayed as replayed
from exact import FLOWS, begin
from plmcmc.chains import Replayed
from plmcmc.kernels import Info, Metropolis, Mixture, Perturb, Resample
from plmcmc.rng import Streams
from plmcmc.target import NormalAuxiliary, ProjectedLatentTarget

ROWS, STEPS = 20, 12


class Recorder:
    """Stands in for graphs: counts records and replays."""

    def __init__(self, monkeypatch, *, refuses=None):
        self.records = self.replays = 0
        self.refuses = refuses
        monkeypatch.setattr(replayed, "rehearse", lambda work: work())
        monkeypatch.setattr(replayed, "record", self.record)

    def record(self, work, generators):
        if self.refuses:
            raise self.refuses("operation not permitted when stream is capturing")
        assert list(generators)
        self.records += 1

        def replay():
            self.replays += 1
            work()

        return (), replay


def kernel(device="cpu"):
    flow = FLOWS["realnvp"]().to(device)
    begun = begin(FLOWS["realnvp"](), rows=ROWS)
    data = begun.data
    data = type(data)(data.values.to(device), data.observed.to(device))
    target = ProjectedLatentTarget(flow, data, NormalAuxiliary(0.5))
    proposal = Mixture((Perturb(0.3), Resample(1.0)), (0.5, 0.5))
    own = Metropolis(target, proposal)
    return own, own.init(begun.truth.to(device))


def drawing(device="cpu"):
    return Streams.of_rows(3, "steps", ROWS, device=device)


def walked(stepper, state, device="cpu", steps=STEPS, streams=None):
    streams, seen = streams or drawing(device), []
    with torch.no_grad():
        for _ in range(steps):
            state, info = stepper.step(state, streams)
            seen.append([part.clone() for part in (*state, info.accepted, info.log_ratio)])
    return seen


def same(one, other):
    return all(
        torch.equal(a, b)
        for parts in zip(one, other, strict=True)
        for a, b in zip(*parts, strict=True)
    )


def test_the_same_chain(monkeypatch):
    recorder, (own, state) = Recorder(monkeypatch), kernel()
    expected = walked(own, state)
    moved = sum(int(parts[-2].sum()) for parts in expected)
    assert 0 < moved < ROWS * STEPS
    assert same(walked(Replayed(own), state), expected)
    assert (recorder.records, recorder.replays) == (1, STEPS - replayed.FIRST)


def test_a_state_from_elsewhere_is_taken(monkeypatch):
    Recorder(monkeypatch)
    own, state = kernel()
    stepper, streams, others = Replayed(own), drawing(), drawing()
    walked(stepper, state, streams=streams)
    walked(own, state, streams=others)
    assert same(walked(stepper, state, streams=streams), walked(own, state, streams=others))
    with pytest.raises(
        ValueError, match="only use the random streams that they were recorded with"
    ):
        stepper.step(state, drawing())


def test_what_cannot_be_recorded_runs_as_it_is(monkeypatch):
    recorder, (own, state) = Recorder(monkeypatch, refuses=RuntimeError), kernel()
    streams = drawing()
    before = list(streams.generators)
    assert same(walked(Replayed(own), state, streams=streams), walked(own, state))
    assert recorder.replays == 0
    # A failed recording spoils the generators that it was to draw from.
    assert not any(one is other for one, other in zip(before, streams.generators, strict=True))


def test_too_little_memory_to_record_is_said(monkeypatch):
    Recorder(monkeypatch, refuses=torch.OutOfMemoryError)
    own, state = kernel()
    with pytest.raises(torch.OutOfMemoryError):
        walked(Replayed(own), state)


def test_dear_steps_are_left_alone(monkeypatch):
    recorder = Recorder(monkeypatch)

    class Nothing(NamedTuple):
        here: torch.Tensor

    class Dear:
        def step(self, state, streams):
            del streams
            return state, Info(state.here > 0, state.here, replayed.MOST_PASSES + 1)

    walked(Replayed(Dear()), Nothing(torch.zeros(ROWS)))
    assert recorder.records == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
def test_a_gpu_s_graphs_step_alike():
    own, state = kernel("cuda")
    stepper = Replayed(own)
    expected, found = walked(own, state, "cuda"), walked(stepper, state, "cuda")
    assert stepper.possible
    for one, other in zip(expected, found, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b)
