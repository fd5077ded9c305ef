"""The one loop: what is kept, when it stops, and that a resumed run is the same run."""

import os
import sys
from itertools import product
from typing import ClassVar, NamedTuple

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from exact import shaken
from plmcmc.chains import (
    Acceptance,
    Checkpoint,
    CheckpointError,
    Completions,
    Schedule,
    Stepper,
    fingerprint,
    resumed_seed,
    run,
)
from plmcmc.chains.checkpoint import _digest
from plmcmc.data import Incomplete
from plmcmc.flows import NICE, RealNVP, sample
from plmcmc.kernels import (
    EllipticalSlice,
    Info,
    Langevin,
    Metropolis,
    Mixture,
    OneCoordinate,
    Perturb,
    Resample,
)
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget, NormalAuxiliary, ProjectedLatentTarget
from plmcmc.training import fit_flow, resuming
from toys import Killed, Watched

ROWS = 5


class Walk(NamedTuple):
    completion: Tensor


class Walker:
    """Adds one to every row; row i moves in every (i + 1)-th step only."""

    def step(self, state: Walk, streams: Streams) -> tuple[Walk, Info]:
        step = int(state.completion[0, 0]) + 1
        accepted = torch.tensor([step % (row + 1) == 0 for row in range(ROWS)])
        return Walk(state.completion + 1), Info(accepted, torch.zeros(ROWS).double(), 3)


def walk(schedule: Schedule, **options) -> tuple[Completions, Acceptance, Walk]:
    start = torch.zeros(ROWS, 2)
    recorders = Completions(schedule, start), Acceptance(schedule, start)
    streams = Streams.of_rows(0, "test", ROWS)
    last = run(Walker(), Walk(start), streams, schedule.steps, recorders=recorders, **options)
    return *recorders, last


class TestSchedule:
    @pytest.mark.parametrize(
        ("burn_in", "draws", "thin"), [*product(range(4), range(1, 4), range(1, 4))]
    )
    def test_keeps_every_thin_th_step_after_the_burn_in(self, burn_in, draws, thin):
        schedule = Schedule(burn_in, draws, thin)
        kept = [burn_in + thin * (draw + 1) for draw in range(draws)]
        places = {step: schedule.place(step) for step in range(1, schedule.steps + 1)}
        assert schedule.steps == kept[-1]
        assert {step: place for step, place in places.items() if place is not None} == {
            step: draw for draw, step in enumerate(kept)
        }

    @pytest.mark.parametrize(("burn_in", "thin"), [*product(range(4), range(1, 4))])
    def test_recorders_follow_it(self, burn_in, thin):
        schedule = Schedule(burn_in, 3, thin)
        completions, acceptance, _ = walk(schedule)
        # The walk stands at n after n steps.
        assert completions.values[:, 0, 0].tolist() == [burn_in + thin * n for n in (1, 2, 3)]
        for row in range(ROWS):
            counted = [step % (row + 1) == 0 for step in range(burn_in + 1, schedule.steps + 1)]
            assert acceptance.rate[row] == pytest.approx(sum(counted) / len(counted))
        assert acceptance.passes == 3 * schedule.steps


class TestLoop:
    def test_returns_the_last_state(self):
        *_, last = walk(Schedule(2, 3))
        assert last.completion[0, 0] == 5

    def test_tells_every_step_and_its_info(self):
        told = []
        walk(Schedule(1, 3), on_step=lambda done, info: told.append((done, info.passes)))
        assert told == [(1, 3), (2, 3), (3, 3), (4, 3)]

    def test_asks_before_every_step_whether_to_stop(self):
        asked = []

        def stop(state):
            asked.append(int(state.completion[0, 0]))
            return asked[-1] == 3

        *_, last = walk(Schedule(0, 10), stop=stop)
        assert asked == [0, 1, 2, 3]
        assert last.completion[0, 0] == 3

    def test_no_steps_return_the_start(self):
        start = Walk(torch.zeros(ROWS, 2))
        assert run(Walker(), start, Streams.of_rows(0, "test", ROWS), 0) is start

    def test_steps_without_gradients(self):
        class Asks:
            def step(self, state, streams):
                assert not torch.is_grad_enabled()
                return state, None

        run(Asks(), Walk(torch.zeros(1, 1)), Streams.of_rows(0, "test", 1), 1)

    def test_recorded_completions_are_copies(self):
        class InPlace:
            def step(self, state, streams):
                state.completion.add_(1)
                return state, None

        start = Walk(torch.zeros(1, 1))
        completions = Completions(Schedule(0, 3), start.completion)
        run(InPlace(), start, Streams.of_rows(0, "test", 1), 3, recorders=[completions])
        assert completions.values.flatten().tolist() == [1, 2, 3]


# Two blocks, so that more than one generator has to come back.
CHAIN_ROWS = 130


def latent(flow, data):
    return ProjectedLatentTarget(flow, data, NormalAuxiliary(0.5))


def gibbs(flow, data):
    target = ConditionalTarget(flow, data)
    proposal = OneCoordinate.of(torch.zeros(4), torch.ones(4), target.free)
    return Metropolis(target, proposal)


KERNELS = {
    "metropolis": lambda flow, data: Metropolis(
        latent(flow, data), Mixture((Perturb(0.3), Resample(1.0)), (0.5, 0.5))
    ),
    "elliptical": lambda flow, data: EllipticalSlice(latent(flow, data)),
    # Its state has a gradient more.
    "langevin": lambda flow, data: Langevin(latent(flow, data), 0.3),
    # In data space, where a state's position and completion share their memory.
    "gibbs": gibbs,
}


class Process:
    """All the objects of a run, made anew from numbers, as a new process would."""

    def __init__(self, kernel: str, path, *, every: int = 1, draws: int = 12) -> None:
        flow = shaken(RealNVP(4, couplings=2, width=8, random_state=0)).float()
        source = torch.Generator().manual_seed(0)
        with torch.no_grad():
            x = sample(flow, CHAIN_ROWS, source)
        observed = torch.rand(x.shape, generator=source) < 0.5
        data = Incomplete(torch.where(observed, x, 0.0), observed)
        self.kernel = KERNELS[kernel](flow, data)
        with torch.no_grad():
            self.state = self.kernel.init(x)
        self.schedule = Schedule(2, draws)
        self.recorders = Completions(self.schedule, x), Acceptance(self.schedule, x)
        self.streams = Streams.of_rows(0, "steps", CHAIN_ROWS)
        self.checkpoint = None if path is None else Checkpoint(path, {"kernel": kernel}, every)

    def run(self, steps: int | None = None, die_after: int | None = None):
        def on_step(done, info):
            if done == die_after:
                raise Killed

        return run(
            self.kernel,
            self.state,
            self.streams,
            steps or self.schedule.steps,
            recorders=self.recorders,
            checkpoint=self.checkpoint,
            on_step=on_step,
        )


def assert_same_run(one: Process, last, other: Process, other_last) -> None:
    assert fingerprint(*last) == fingerprint(*other_last)
    for mine, theirs in zip(one.recorders, other.recorders, strict=True):
        own, its = mine.tensors(), theirs.tensors()
        assert fingerprint(*own.values()) == fingerprint(*its.values())
    assert torch.equal(one.streams.tensors()["generators"], other.streams.tensors()["generators"])


@pytest.mark.parametrize("kernel", KERNELS)
class TestResume:
    @pytest.mark.parametrize("first", [1, 7, 14])
    def test_k_steps_and_the_rest_equal_n_straight(self, kernel, first, tmp_path):
        straight = Process(kernel, None)
        last = straight.run()
        path = tmp_path / "run.safetensors"
        Process(kernel, path, every=100).run(steps=first)
        resumed = Process(kernel, path)
        assert_same_run(straight, last, resumed, resumed.run())

    def test_a_killed_run_goes_on_from_its_last_save(self, kernel, tmp_path):
        straight = Process(kernel, None)
        last = straight.run()
        path = tmp_path / "run.safetensors"
        with pytest.raises(Killed):
            Process(kernel, path, every=4).run(die_after=7)
        resumed = Process(kernel, path, every=4)
        seen = []
        resumed.recorders[1].record = seen_by(resumed.recorders[1].record, seen)
        assert_same_run(straight, last, resumed, resumed.run())
        assert seen == list(range(5, straight.schedule.steps + 1))

    def test_the_random_numbers_matter(self, kernel, tmp_path):
        """Negative control: forgetting the generators' state is seen."""
        straight = Process(kernel, None)
        last = straight.run()
        path = tmp_path / "run.safetensors"
        Process(kernel, path).run(steps=7)
        resumed = Process(kernel, path)
        resumed.streams.restore = lambda tensors: None
        assert fingerprint(*last) != fingerprint(*resumed.run())


def seen_by(record, seen):
    def wrapped(step, state, info):
        seen.append(step)
        record(step, state, info)

    return wrapped


class TestCheckpointFile:
    def saved(self, tmp_path, **identity):
        path = tmp_path / "deep" / "run.safetensors"
        schedule = Schedule(0, 4)
        walk(schedule, checkpoint=Checkpoint(path, {"kernel": "walk", "seed": "3"} | identity))
        return path

    @pytest.mark.parametrize(("rest", "saves"), [(0.0, [1, 2, 3, 4, 5, 6]), (2.5, [1, 4, 6])])
    def test_saves_that_take_long_are_put_off(self, tmp_path, monkeypatch, rest, saves):
        """A clock that each step and each save sets forward by one."""
        clock, seen = [0.0], []
        monkeypatch.setattr(sys.modules[Stepper.__module__], "perf_counter", lambda: clock[0])

        def save(self, step, *rest):
            seen.append(step)
            clock[0] += 1

        monkeypatch.setattr(Checkpoint, "save", save)
        checkpoint = Checkpoint(tmp_path / "run", {}, every=1, rest=rest)

        def tick(*_):
            clock[0] += 1

        walk(Schedule(0, 6), checkpoint=checkpoint, on_step=tick)
        assert seen == saves

    def test_another_run_is_refused_naming_what_differs(self, tmp_path):
        path = self.saved(tmp_path)
        other = Checkpoint(path, {"kernel": "walk", "seed": "4"})
        with pytest.raises(CheckpointError, match=r"a different run \(seed: saved 3, now 4\)") as e:
            walk(Schedule(0, 4), checkpoint=other)
        assert "kernel" not in str(e.value)

    def test_a_field_that_only_one_of_them_has_differs(self, tmp_path):
        path = self.saved(tmp_path, flow="ab12")
        with pytest.raises(CheckpointError, match="flow: saved ab12, now None"):
            walk(Schedule(0, 4), checkpoint=Checkpoint(path, {"kernel": "walk", "seed": "3"}))

    @pytest.mark.parametrize("size", [0, 4, 40, -1])
    def test_a_truncated_file_is_refused(self, tmp_path, size):
        path = self.saved(tmp_path)
        content = path.read_bytes()
        path.write_bytes(content[:size])
        with pytest.raises(
            CheckpointError, match=r"run\.safetensors is not a checkpoint, or is damaged"
        ):
            walk(Schedule(0, 4), checkpoint=Checkpoint(path, {}))

    def test_a_text_file_is_refused(self, tmp_path):
        path = tmp_path / "run.safetensors"
        path.write_text("step,state\n1,2\n" * 20)
        with pytest.raises(CheckpointError, match="delete it to start over"):
            walk(Schedule(0, 4), checkpoint=Checkpoint(path, {}))

    @pytest.mark.parametrize(
        "metadata", [None, {"format": "pt"}, {"identity": "{"}, {"identity": "[]"}]
    )
    def test_anothers_safetensors_file_is_refused(self, tmp_path, metadata):
        path = tmp_path / "run.safetensors"
        save_file({"weight": torch.zeros(3)}, path, metadata)
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            walk(Schedule(0, 4), checkpoint=Checkpoint(path, {}))

    def test_a_directory_is_refused(self, tmp_path):
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            walk(Schedule(0, 4), checkpoint=Checkpoint(tmp_path, {}))

    def test_a_file_without_all_its_tensors_is_refused(self, tmp_path):
        path = tmp_path / "run.safetensors"
        save_file({"step": torch.tensor(2)}, path, {"identity": "{}", "sha256": ""})
        with pytest.raises(CheckpointError, match=r"lacks .* another version"):
            walk(Schedule(0, 4), checkpoint=Checkpoint(path, {}))

    def rewritten(self, tmp_path, *, hashed=True, **changes):
        """A checkpoint with tensors changed, and hashed again or not."""
        path = self.saved(tmp_path)
        tensors = load_file(path)
        with safe_open(path, "pt") as file:
            noted = file.metadata()
        for name, change in changes.items():
            key = name.replace("__", ".")
            tensors[key] = change(tensors[key]).contiguous()
        save_file(tensors, path, noted | ({"sha256": _digest(tensors)} if hashed else {}))
        own = {"kernel": "walk", "seed": "3"}
        return lambda: walk(Schedule(0, 4), checkpoint=Checkpoint(path, own))

    def test_a_file_rewritten_as_it_was_is_gone_on_from(self, tmp_path):
        """Negative control of those that follow."""
        self.rewritten(tmp_path)()

    def test_a_bit_that_the_disk_has_spoilt_is_seen(self, tmp_path):
        run_on = self.rewritten(tmp_path, hashed=False, state__completion=lambda t: t + 1e-6)
        with pytest.raises(CheckpointError, match=r"is damaged \(sha256: .*\): delete it to start"):
            run_on()

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            # Copying into place would spread the one row over all.
            ("state__completion", lambda t: t[:1]),
            ("state__completion", lambda t: t.double()),
            ("streams__generators", lambda t: t[:, :-1]),
            ("streams__generators", lambda t: torch.full_like(t, 255)),
            ("recorder0__completions", lambda t: t[:2]),
            ("step", lambda t: t - 100),
            ("step", lambda t: t.double()),
        ],
    )
    def test_tensors_of_other_sizes_are_refused_by_name(self, tmp_path, name, change):
        named = name.replace("__", r"\.")
        words = rf"\({named}: expected|nvalid|do not match this hash"
        with pytest.raises(CheckpointError, match=rf"is damaged .*({words})"):
            self.rewritten(tmp_path, **{name: change})()

    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "run")
        with pytest.raises(CheckpointError, match="it is not a file"):
            resumed_seed(tmp_path / "run", None)

    def test_seed_of_a_file_without_one(self, tmp_path):
        path = tmp_path / "run.safetensors"
        save_file({"step": torch.tensor(2)}, path, {"identity": "{}", "sha256": ""})
        with pytest.raises(CheckpointError, match="seed"):
            resumed_seed(path, None)

    def test_seed_is_the_callers_or_the_saved_one(self, tmp_path):
        path = self.saved(tmp_path)
        assert resumed_seed(path, None) == 3
        assert resumed_seed(path, 8) == 8
        assert resumed_seed(tmp_path / "none", 8) == 8
        assert isinstance(resumed_seed(tmp_path / "none", None), int)


class TestInterruptedWrite:
    """A save that fails on the way leaves the last good checkpoint, and nothing that looks good."""

    def fail(self, *_):
        raise OSError("disk full")

    @pytest.mark.parametrize("broken", ["replace", "fsync"])
    def test_the_last_good_checkpoint_stands(self, broken, tmp_path, monkeypatch):
        straight = Process("metropolis", None)
        last = straight.run()
        path = tmp_path / "run.safetensors"
        Process("metropolis", path).run(steps=5)
        good = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, self.fail)
            with pytest.raises(OSError, match="disk full"):
                Process("metropolis", path).run()
        assert path.read_bytes() == good
        assert list(tmp_path.glob("*.safetensors")) == [path]
        resumed = Process("metropolis", path)
        assert_same_run(straight, last, resumed, resumed.run())

    def test_a_half_written_first_save_is_no_checkpoint(self, tmp_path, monkeypatch):
        path = tmp_path / "run.safetensors"
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", self.fail)
            with pytest.raises(OSError, match="disk full"):
                Process("metropolis", path).run()
        assert not path.exists()
        straight = Process("metropolis", None)
        again = Process("metropolis", path)
        assert_same_run(straight, straight.run(), again, again.run())
        assert [file.name for file in tmp_path.iterdir()] == [path.name]


class TestFitResumes:
    """Training goes through the same loop: the flow's weights come back bit for bit."""

    SETTINGS: ClassVar = {"epochs": 8, "batch_size": 32, "random_state": 5, "noise": 0.1}

    def flow(self):
        return Watched(RealNVP(3, couplings=2, width=8, random_state=0))

    def x(self):
        return torch.randn(100, 3, generator=torch.Generator().manual_seed(2))

    @pytest.mark.parametrize("passes", [3, 11, 20])
    def test_killed_training_goes_on_bit_for_bit(self, passes, tmp_path, monkeypatch):
        # Saved after every epoch, however short it is.
        monkeypatch.setattr(resuming, "REST", 0.0)
        straight = fit_flow(self.flow(), self.x(), **self.SETTINGS)
        path = tmp_path / "fit.safetensors"
        dying = self.flow()
        # One more: the flow is asked for the shape of its rows first.
        dying.left = passes + 1
        with pytest.raises(Killed):
            fit_flow(dying, self.x(), checkpoint=path, **self.SETTINGS)
        assert path.exists() == (passes > 4)
        fresh = self.flow()
        resumed = fit_flow(fresh, self.x(), checkpoint=path, **self.SETTINGS)
        assert fingerprint(*resumed.flow.state_dict().values()) == fingerprint(
            *straight.flow.state_dict().values()
        )
        assert resumed.train == straight.train
        assert resumed.held_out == straight.held_out
        assert resumed.best_epoch == straight.best_epoch
        # Epochs take 4 passes: 3 batches of 90 rows, and the held-out rows.
        assert fresh.calls["to_latent"] == 4 * (8 - passes // 4)

    @pytest.mark.parametrize("family", [NICE, RealNVP])
    def test_orders_of_columns_are_the_saved_ones(self, family, tmp_path, monkeypatch):
        """A flow of another seed goes on as the one that was saved."""
        monkeypatch.setattr(resuming, "REST", 0.0)
        path = tmp_path / "fit.safetensors"
        first, other = (family(6, width=4, depth=1, random_state=seed) for seed in (0, 1))
        x = torch.randn(100, 6, generator=torch.Generator().manual_seed(2))
        settings = self.SETTINGS | {"epochs": 2}
        dying = Watched(first)
        dying.left = 7
        with pytest.raises(Killed):
            fit_flow(dying, x, checkpoint=path, **settings)
        resumed = fit_flow(Watched(other), x, checkpoint=path, **settings)
        straight = fit_flow(Watched(family(6, width=4, depth=1, random_state=0)), x, **settings)
        assert resumed.held_out == straight.held_out
        with torch.no_grad():
            z = straight.flow.to_latent(x)[0]
            assert torch.equal(other.to_data(z)[0], straight.flow.to_data(z)[0])

    def test_a_finished_one_is_only_read(self, tmp_path):
        path = tmp_path / "fit.safetensors"
        first = fit_flow(self.flow(), self.x(), checkpoint=path, **self.SETTINGS)
        fresh = self.flow()
        second = fit_flow(fresh, self.x(), checkpoint=path, **self.SETTINGS)
        assert fresh.calls["to_latent"] == 0
        assert second[1:] == first[1:]
        assert fingerprint(*fresh.state_dict().values()) == fingerprint(
            *first.flow.state_dict().values()
        )

    def test_without_a_seed_the_saved_one_is_taken(self, tmp_path):
        path = tmp_path / "fit.safetensors"
        settings = self.SETTINGS | {"random_state": None}
        dying = self.flow()
        dying.left = 11
        with pytest.raises(Killed):
            fit_flow(dying, self.x(), checkpoint=path, **settings)
        seed = resumed_seed(path, None)
        resumed = fit_flow(self.flow(), self.x(), checkpoint=path, **settings)
        straight = fit_flow(self.flow(), self.x(), **settings | {"random_state": seed})
        assert resumed[1:] == straight[1:]

    @pytest.mark.parametrize(
        ("field", "change"),
        [
            ("learning_rate", {"learning_rate": 0.5}),
            ("epochs", {"epochs": 9}),
            ("seed", {"random_state": 6}),
            ("patience", {"patience": 3}),
        ],
    )
    def test_another_fit_is_refused(self, field, change, tmp_path):
        path = tmp_path / "fit.safetensors"
        fit_flow(self.flow(), self.x(), checkpoint=path, **self.SETTINGS)
        with pytest.raises(CheckpointError, match=rf"a different run \(.*{field}: "):
            fit_flow(self.flow(), self.x(), checkpoint=path, **self.SETTINGS | change)

    def test_other_data_are_refused(self, tmp_path):
        path = tmp_path / "fit.safetensors"
        fit_flow(self.flow(), self.x(), checkpoint=path, **self.SETTINGS)
        with pytest.raises(CheckpointError, match=r"a different run \(data: "):
            fit_flow(self.flow(), self.x() + 1, checkpoint=path, **self.SETTINGS)

    @pytest.mark.parametrize("change", [{"latent": "logistic"}, {"bound": 1.0}, {"width": 9}])
    def test_another_flow_is_refused(self, change, tmp_path):
        path = tmp_path / "fit.safetensors"
        shape = {"couplings": 2, "width": 8, "random_state": 0}
        fit_flow(RealNVP(3, **shape), self.x(), checkpoint=path, **self.SETTINGS)
        with pytest.raises(CheckpointError, match=r"a different run \(flow: "):
            fit_flow(RealNVP(3, **shape | change), self.x(), checkpoint=path, **self.SETTINGS)
