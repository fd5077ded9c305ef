"""Images completed with Glow, in small: pictures are written, real faces are in none of them."""

import json
import shlex
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plmcmc import kernels
from plmcmc.chains import FromObserved, Unconditional
from plmcmc.cli.entry import _parser
from plmcmc.data import CentreSquare, DataError
from plmcmc.experiments import experiment_of, reproduce
from plmcmc.experiments.algorithm1 import first_completions
from plmcmc.experiments.convergence import share_within, spent
from plmcmc.experiments.images import completion, task
from plmcmc.experiments.images.completion import EQUAL, PAPER, SAMPLED, Completion
from plmcmc.experiments.images.glow_flow import command, tiny, trained_before
from plmcmc.experiments.images.numbers import heights, numbers_of, rows_of
from plmcmc.experiments.images.report import _ahead, reported
from plmcmc.experiments.images.task import TASKS, patches, with_drawn
from plmcmc.experiments.ledger import Ledger
from plmcmc.experiments.pictures import as_bytes
from plmcmc.experiments.study import Found, Place
from plmcmc.flows import NICE, Absolute, Glow, Preprocessed, log_prob, save
from plmcmc.posterior import ConvergenceWarning, Draws, condition
from plmcmc.posterior.methods import Metropolis
from plmcmc.target import NormalAuxiliary

NAMES = ("cifar", "celeba")
SHOWN = ("truth", "seen", "last", "mean", "progress")


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """One place for both: they share the tiny flow."""
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture
def place(output, tmp_path):
    return Place(tmp_path, output / "shared", progress=False)


def part_of(name):
    """Return the name of the part that is Algorithm 1."""
    return next(part for part in experiment_of(name, "smoke").parts() if part.endswith(PAPER))


@pytest.mark.parametrize("name", NAMES)
def test_a_smoke_run(name, output):
    report = reproduce.reproduce(
        name, "smoke", output=output, progress=False, say=lambda words: None
    )
    own, experiment = output / f"{name}-smoke", experiment_of(name, "smoke")
    for line in report.splitlines():
        if line.startswith("!["):
            assert (own / line.partition("(")[2].partition(")")[0]).stat().st_size > 1000
    # Two grids a way, the completions of all, the trace; the samples.
    ways, samples = len(experiment.ways), len(experiment.temperatures)
    assert len(list(own.glob("*.png"))) == ways + 2 + samples
    assert "nan" not in report
    assert "different flows" not in report
    # Nothing is left of what a part saved on its way.
    assert not list(own.glob("*.checkpoint"))
    again = []
    assert reproduce.reproduce(name, "smoke", output=output, say=again.append) == report
    assert again[0].startswith(f"{name} (smoke): 0 of")


@pytest.mark.parametrize("name", NAMES)
def test_a_part_is_the_same_twice_and_goes_on_where_it_was_stopped(name, place, monkeypatch):
    experiment, part = experiment_of(name, "smoke"), part_of(name)
    steps, step, last = [], kernels.Metropolis.step, [100]

    def counted(self, *args):
        if len(steps) == last[0]:
            raise KeyboardInterrupt
        steps.append(1)
        return step(self, *args)

    monkeypatch.setattr(kernels.Metropolis, "step", counted)
    straight = experiment.run(part, place)
    assert len(steps) == experiment.proposals
    # As `reproduce` does, once numbers are kept.
    shutil.rmtree(place.checkpoint(part))
    assert experiment.run(part, place).numbers | {"seconds": 0} == straight.numbers | {"seconds": 0}
    shutil.rmtree(place.checkpoint(part))
    steps.clear()
    last[0] = 9
    with pytest.raises(KeyboardInterrupt):
        experiment.run(part, place)
    steps.clear()
    resumed = experiment.run(part, place)
    # Saved after the eighth of twelve.
    assert len(steps) == 4
    assert resumed.numbers | {"seconds": 0} == straight.numbers | {"seconds": 0}
    for key, array in straight.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[key], array)


def test_pictures_show_faces_that_the_flow_drew_and_no_other(place):
    experiment = experiment_of("celeba", "smoke")
    pictures = experiment.run(part_of("celeba"), place).arrays
    real = patches(experiment.images)
    drawn = with_drawn(real, tiny(place), experiment.drawn)[experiment.images :]
    np.testing.assert_array_equal(pictures["truth"], as_bytes(drawn, 255))
    # Chains change one half; the other would give a real one away.
    half = real.shape[2] // 2

    def shows_a_real_one(images):
        left = images[..., :half, :].reshape(-1, 1, real.shape[1], half, 3)
        return bool((left == as_bytes(real, 255)[:, :, :half]).all((2, 3, 4)).any())

    assert not any(shows_a_real_one(pictures[key]) for key in SHOWN)
    # Of CIFAR-10 the real ones are shown.
    pictures = experiment_of("cifar", "smoke").run(part_of("cifar"), place).arrays
    assert shows_a_real_one(pictures["truth"])


def test_where_chains_begin_is_where_stuck_chains_stay(place):
    flow = tiny(place)
    x = patches(3)
    posterior = condition(flow, x, CentreSquare(2)(x))
    # No step of this size is ever accepted with such an auxiliary density.
    method, start = Metropolis(1.0, None, NormalAuxiliary(1e-6)), Unconditional(0.5)
    with pytest.warns(ConvergenceWarning):
        draws = posterior.sample(
            1, chains=2, warmup=0, method=method, start=start, random_state=3, progress=False
        )
    assert draws.acceptance.max() == 0
    first = first_completions(posterior, method, start, 2, 3)
    np.testing.assert_allclose(first, draws.values[:, 0], atol=1e-3)
    other = first_completions(posterior, method, start, 2, 4)
    assert np.abs(other - draws.values[:, 0]).max() > 1


def test_chains_move_from_samples_as_they_are_and_not_from_what_is_seen(place):
    """With an auxiliary density as tight as the paper's, a chain at y_O = x_O stays there."""
    tight = {"auxiliary": 1e-4, "proposals": 40, "drawn": 0}
    cifar = replace(experiment_of("cifar", "smoke"), **tight)
    assert cifar.run("hole 2, Algorithm 1", place).numbers["acceptance"] == 0
    assert cifar.run("hole 2, equal starts", place).numbers["acceptance"] == 0
    assert cifar.run("hole 2, sampled starts", place).numbers["acceptance"] > 0.1


@pytest.fixture
def asked(monkeypatch):
    """Run Algorithm 1 by chains whose states are given; note what they were asked."""
    asked = []

    def walked(posterior, method, start, part, place, **counts):
        x, source = posterior.data.values, np.random.default_rng(0)
        values = source.integers(256, size=(counts["chains"], 3, *x.shape)).astype(np.float32)
        observed = posterior.data.observed.cpu().numpy()
        rate = np.full((counts["chains"], len(x)), 0.5)
        draws = Draws(values, observed, rate, 40, 0, True, "some", 0)
        asked.append(SimpleNamespace(flow=posterior.flow, method=method, start=start, **counts))
        asked[-1].values = values
        return draws, values[0, 0]

    monkeypatch.setattr(completion, "progression", walked)
    return asked


@pytest.mark.parametrize(
    ("name", "way", "kind", "start"),
    [
        ("cifar", PAPER, Absolute, FromObserved()),
        ("cifar", SAMPLED, Absolute, Unconditional(0.5, projected=False)),
        ("celeba", PAPER, Glow, Unconditional(0.5, projected=False)),
        ("celeba", EQUAL, Glow, Unconditional()),
    ],
)
def test_chains_walk_in_the_paper_s_latents_and_units(name, way, kind, start, asked, place):
    """CIFAR-10's in absolute ones; sigma_a is of pixels in [0, 1], and chains see levels."""
    study = experiment_of(name, "smoke")
    part = next(part for part in study.parts() if part.endswith(PAPER)).replace(PAPER, way)
    study.run(part, place)
    (own,) = asked
    assert type(own.flow.flow) is kind
    assert [type(stage) for stage in own.flow.chain] == [type(stage) for stage in tiny(place).chain]
    assert own.flow.chain[0].levels == 256
    assert (own.method.perturb, own.method.resample) == (0.01, None)
    assert type(own.method.auxiliary) is NormalAuxiliary
    assert float(own.method.auxiliary.scale) == pytest.approx(256e-3)
    assert own.start == start
    assert (own.proposals, own.every, own.chains) == (study.proposals, study.kept_every, 1)


def test_densities_are_of_each_chain_s_own_states(asked, place, monkeypatch):
    monkeypatch.setattr("plmcmc.experiments.images.numbers.AT_ONCE", 5)
    study = replace(experiment_of("cifar", "smoke"), paper_chains=3)
    found = study.run(part_of("cifar"), place)
    flow, values = tiny(place), torch.as_tensor(asked[0].values)
    with torch.no_grad():
        each = [[log_prob(flow, images).numpy() for images in chain] for chain in values]
    each = np.array(each)
    assert each.shape == (3, 3, study.images)
    # By another batch the last bits of float32 differ, of hundreds of nats.
    np.testing.assert_allclose(heights(flow, asked[0].values), each, rtol=1e-5)
    np.testing.assert_allclose(found.arrays["log p"], each.mean(0), rtol=1e-5)
    last = found.numbers["log p, last states, by image"]
    np.testing.assert_allclose(last, each[:, -1].mean(0), atol=0.06)


def test_faces_are_those_after_the_ones_that_the_flow_was_trained_on(place, monkeypatch):
    asked = []

    def given(where, *counts):
        asked.append((where, *counts))
        return np.full((counts[-1], 64, 64, 3), 255, np.float32)

    monkeypatch.setattr(task, "faces", given)
    faces = TASKS["celeba"].images(3, 32, place)
    assert asked == [(place, 9500, 3)]
    # As integers below the flow's levels.
    assert faces.shape == (3, 64, 64, 3)
    assert (faces == 31).all()
    assert "--first 9500 " in command("faces", place)


def glow(side, place):
    """Return an untrained Glow of pictures of this side."""
    chain = list(tiny(place).chain)
    return Preprocessed(chain, Glow((3, side, side), levels=1, steps=1, width=4, random_state=0))


def test_a_flow_is_looked_for_in_two_places_and_else_the_command_is_told(place, tmp_path):
    place = replace(place, shared=tmp_path / "shared", data=tmp_path)
    with pytest.raises(DataError, match=r"(?s)flows/cifar; found none.*plmcmc fit-flow .* -o /"):
        trained_before("cifar", place)
    save(NICE(4, random_state=0), tmp_path / "flows" / "cifar")
    with pytest.raises(DataError, match="flows/cifar: expected a Glow of integers"):
        trained_before("cifar", place)
    save(glow(64, place), tmp_path / "flows" / "faces")
    found = trained_before("faces", place)
    assert found.chain[0].levels == 256
    # What experiments share comes first.
    shutil.copytree(tmp_path / "flows" / "cifar", tmp_path / "shared" / "faces")
    with pytest.raises(DataError, match="shared/faces: expected"):
        trained_before("faces", place)


def test_a_flow_of_other_pictures_is_refused_in_words_and_not_noted(place, tmp_path):
    noted = []
    place = replace(place, data=tmp_path, note=lambda path, name: noted.append(name))
    place = replace(place, shared=tmp_path / "shared")
    save(glow(8, place), tmp_path / "flows" / "cifar")
    for part in ("samples, temperature 1", "hole 8, default"):
        with pytest.raises(DataError) as caught:
            experiment_of("cifar", "laptop").run(part, place)
        words = str(caught.value)
        assert (
            "flows/cifar: expected a flow of pictures of 32 x 32 x 3; got one of 8 x 8 x 3" in words
        )
        assert f"plmcmc fit-flow {tmp_path}/cifar10/train.npy" in words
    assert not noted


def test_pictures_that_the_flow_is_not_of_are_refused_in_words(place, tmp_path):
    place = replace(place, data=tmp_path)
    (tmp_path / "cifar10").mkdir()
    np.save(tmp_path / "cifar10" / "test.npy", np.zeros((3, 16, 16, 3), np.uint8))
    with pytest.raises(
        DataError, match=r"expected pictures of 32 x 32 x 3.* got 16 x 16 x 3: resize"
    ):
        TASKS["cifar"].images(2, 256, place)


class TestCommand:
    """What is told to type is what can be typed: the run's data, and its device."""

    def test_on_a_cpu(self, place, tmp_path):
        data = tmp_path / "my data"
        told = command("cifar", replace(place, data=data))
        assert f"plmcmc fit-flow '{data}/cifar10/train.npy' --steps 8" in told
        assert f"-o {place.shared}/cifar\n" in told
        assert "very long without a GPU" in told
        assert "train.npy does not exist either" in told
        assert not {"bfloat16", "--device", "cuda", "DATA"} & {*told.split()}

    def test_on_a_gpu(self, place, tmp_path):
        (tmp_path / "faces64").mkdir()
        (tmp_path / "faces64" / "some.zip").touch()
        told = command("faces", replace(place, data=tmp_path, device="cuda:1"))
        assert told.startswith(f"plmcmc fit-flow {tmp_path}/faces64/some.zip --first 9500")
        assert "--precision bfloat16 --device cuda:1 -o" in told
        assert "\n" not in told

    @pytest.mark.parametrize("device", ["cpu", "cuda"])
    @pytest.mark.parametrize("name", ["cifar", "faces"])
    def test_is_one_of_ours(self, name, device, place, tmp_path):
        told = command(name, replace(place, data=tmp_path / "my data", device=device))
        words = shlex.split(told.splitlines()[0])
        parsed = _parser().parse_args(words[1:])
        assert parsed.device == device
        assert parsed.precision == ("float32" if device == "cpu" else "bfloat16")
        assert parsed.output == str(place.shared / name)

    def test_without_data(self, place):
        told = command("cifar", place)
        assert "fit-flow DATA/cifar10/train.npy" in told
        assert "DATA stands for the directory" in told


class TestAhead:
    """Densities are compared after as many passes, or it is said that they are not."""

    @staticmethod
    def way(spent, heights):
        """Return a way whose log p is of two images, the second a nat lower."""
        heights = np.array(heights, dtype=np.float64)[:, None] - np.array([0.0, 1.0])
        return Found({}, {"spent": np.array(spent, dtype=np.float64), "log p": heights})

    def told(self, ours, theirs):
        return list(_ahead({"default": self.way(*ours), "Algorithm 1": self.way(*theirs)}))

    def test_beside_a_longer_chain(self):
        """Of its states, the first that has had as many passes: none before."""
        (words,) = self.told(([30, 40], [5, 9]), ([10, 20, 35, 45, 90], [0, 1, 2, 4, 100]))
        assert (
            "default sampler minus that of PL-MCMC (Algorithm 1), after equally many passes"
            in words
        )
        assert "(40 and 45): +5 to +5, higher on 2 of 2 images" in words

    def test_beside_a_shorter_chain(self):
        """Of our states, the last that the other has as many passes for."""
        (words,) = self.told(([30, 40], [5, 9]), ([10, 20, 35], [0, 1, 7]))
        assert "after equally many passes (30 and 35): -2 to -2, higher on 0 of 2 images" in words

    def test_beside_one_that_ended_before_ours_began(self):
        (words,) = self.told(([30, 40], [5, 9]), ([10, 24], [0, 1]))
        assert "at their ends, not after equally many passes (40 and 24): +8 to +8" in words

    def test_of_as_many(self):
        (words,) = self.told(([30, 40], [5, 9]), ([20, 40], [0, 1]))
        assert "after equally many passes (40 and 40): +8" in words


@pytest.mark.parametrize("scale", ["smoke", "laptop", "full"])
def test_each_says_only_how_it_reads_the_paper_itself(scale):
    cifar, faces = (" ".join(experiment_of(name, scale).readings) for name in NAMES)
    assert "central quarter" in cifar
    assert "Equal starts" in faces
    for word in ("face", "5.2", "D.2)", "Equal starts"):
        assert word not in cifar.replace("D.1, D.2)", "")
    for word in ("quarter", "Sampled starts", "5.1"):
        assert word not in faces
    assert "Faces have as many levels as the flow" in faces
    assert cifar.count("not finite") == faces.count("not finite") == 1
    # Nobody trained a flow of patches by that command.
    for own in (cifar, faces):
        assert ("trained with `plmcmc fit-flow`" in own) == (scale != "smoke")
        assert ("patches of 4 x 4 pixels" in own) == (scale == "smoke")


def test_what_is_shown_does_not_depend_on_what_was_finished_first(output, tmp_path):
    test_a_smoke_run("cifar", output)
    study = experiment_of("cifar", "smoke")
    ledger = Ledger(output / "cifar-smoke", study.settings())
    found = {part: ledger[part] for part in ledger}
    place = Place(tmp_path, tmp_path)
    report = study.report(found, place)
    files = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert study.report(dict(reversed(found.items())), place) == report
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.png")} == files


def test_one_name_for_each_sampler(output):
    test_a_smoke_run("celeba", output)
    report = (output / "celeba-smoke" / "report.md").read_text()
    assert "| plmcmc's default sampler |" in report
    assert "| PL-MCMC (Algorithm 1) |" in report
    assert "| PL-MCMC (Algorithm 1), equal starts |" in report
    # Names of parts are not for people.
    assert "| default |" not in report
    assert "| Algorithm 1 |" not in report


def draws_of(values, passes=100, warmup_passes=0):
    """Return draws `(chains, draws, rows, 1, 2, 1)`, the first pixel of which is seen."""
    observed = np.zeros(values.shape[2:], bool)
    observed[:, :, 0] = True
    rate = np.full((values.shape[0], values.shape[2]), 0.25)
    return Draws(values, observed, rate, passes, warmup_passes, True, "some", 0)


def test_numbers_of_known_draws():
    moving = torch.randn(4, 40, 2, 1, 2, 1, generator=torch.Generator().manual_seed(0)).numpy()
    # The second image's chains stand still, 64 of 256 levels off.
    moving[:, :, 1] = 64
    truth = np.zeros((2, 1, 2, 1), np.float32)
    draws = draws_of(moving)
    numbers = numbers_of(draws, truth, 256)
    assert numbers["acceptance"] == 0.25
    assert numbers["share by image"] == [1.0, 0.0]
    assert numbers["share at R-hat 1.1 or less"] == numbers["share that moved"] == 0.5
    still = numbers_of(rows_of(draws, slice(1, 2)), truth[1:], 256)
    assert still["RMSE of a completion"] == still["RMSE of the mean"] == 0.25
    assert still["R-hat, median"] is None
    json.dumps(numbers | still, allow_nan=False)


def test_passes_are_spent_evenly_after_the_warm_up():
    values = np.random.default_rng(0).normal(size=(4, 8, 1, 1, 2, 1))
    draws = draws_of(values, passes=1000, warmup_passes=200)
    assert spent(draws).tolist() == [300, 400, 500, 600, 700, 800, 900, 1000]
    assert share_within(draws, 599) == 0
    assert share_within(draws, 1000) == (draws.rhat()[~draws.observed] <= 1.1).mean()


def test_progressions_are_at_the_paper_s_intervals():
    values = np.zeros((1, 50, 1, 1, 2, 1))
    steps, labels = Completion()._progression(draws_of(values), first=True)
    assert labels[:2] == ["0", "3,000"]
    assert labels[-2:] == ["24,000", "25,000"]
    assert steps[0] == 5
    assert steps[-1] == 49
    faces = experiment_of("celeba", "full")
    assert faces._progression(draws_of(values), first=True)[1] == [
        f"{1000 * step:,}" for step in range(26)
    ]


def test_parts_of_other_flows_are_told(tmp_path):
    one, two = ({"flow": name, "share that is finite": 1.0} for name in "ab")
    pictures = {"samples": np.zeros((2, 4, 4, 3), np.uint8)}
    found = {"samples, temperature 1": Found(one, pictures)}
    assert "different" not in reported(found, tmp_path)
    found["samples, temperature 0.5"] = Found(two, pictures)
    assert "2 different flows" in reported(found, tmp_path)


def test_full_is_the_paper_s():
    cifar, faces = (experiment_of(name, "full") for name in NAMES)
    for own in (cifar, faces):
        assert own.proposals == 25_000
        assert (own.perturb, own.auxiliary) == (0.01, 1e-3)
    assert "hole 8, Algorithm 1" in cifar.parts()
    assert "hole 16, Algorithm 1" in cifar.parts()
    assert "right half, Algorithm 1" in faces.parts()
    assert {"samples, temperature 0.5", "samples, temperature 1"} < {*faces.parts()}
    assert "samples, temperature 1" in cifar.parts()
