"""Trainings of MisGAN and MIWAE that are stopped: they go on, and end with the same bits.

A graph needs a GPU; here a replay works through the step again, in the same tensors.
"""

import numpy as np
import pytest
import torch

from plmcmc.baselines import MisganImputer, MiwaeImputer, miwae_epoch
from plmcmc.baselines.autoencoder import Autoencoder
from plmcmc.baselines.epochs import Epochs, checkpoint_of
from plmcmc.baselines.misgan_epoch import MisganEpoch
from plmcmc.baselines.misgan_game import Game
from plmcmc.baselines.misgan_networks import Players
from plmcmc.baselines.misgan_rounds import Rounds
from plmcmc.baselines.miwae_epoch import MiwaeEpoch
from plmcmc.chains import Checkpoint, CheckpointError
from plmcmc.chains import progress as chains_progress
from plmcmc.flows.passes import captured
from plmcmc.rng import Streams
from plmcmc.training import resuming
from plmcmc.training.ascent import CaptureWarning

EPOCHS = 5
RNG = np.random.default_rng(0)
# Of images, in which a seen pixel is not 0 and a hole is; of a table, holes are NaN.
SEEN = RNG.random((20, 4, 4)) < 0.6
IMAGES = np.where(SEEN, RNG.uniform(0.1, 1, SEEN.shape), 0.0)
TABLE = np.where(RNG.random((40, 3)) < 0.3, np.nan, RNG.normal(size=(40, 3)))


def misgan(checkpoint=None, images=IMAGES, seen=SEEN, **changes):
    # Of two batches an epoch, and every third one for the generators: none in the first.
    sizes = {"latent": 3, "channels": 2, "width": 8, "batch_size": 8, "critic_steps": 3}
    pace = {"epochs": EPOCHS, "learning_rate": 1e-3, "random_state": 0}
    imputer = MisganImputer(**(sizes | pace | changes))
    return imputer.fit(images, seen, checkpoint=checkpoint)


def miwae(checkpoint=None, table=TABLE, **changes):
    # A third batch has fewer rows.
    sizes = {"latent": 2, "width": 8, "training_samples": 2, "samples": 20, "batch_size": 16}
    pace = {"epochs": EPOCHS, "learning_rate": 1e-2, "random_state": 0}
    return MiwaeImputer(**(sizes | pace | changes)).fit(table, checkpoint=checkpoint)


FITS = {"MisGAN": misgan, "MIWAE": miwae}
STEPPERS = {"MisGAN": MisganEpoch, "MIWAE": MiwaeEpoch}
both = pytest.mark.parametrize("name", list(FITS))


@pytest.fixture(autouse=True)
def saved_after_every_epoch(monkeypatch):
    monkeypatch.setattr(resuming, "REST", 0.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "there" / "training"


def stopped(name, path, after, **changes):
    """Train until so many epochs are done, and one more is under way."""
    stepper, taken = STEPPERS[name], []
    step = stepper.step

    def killed(self, state, streams):
        found = step(self, state, streams)
        if len(taken) == after:
            raise KeyboardInterrupt
        taken.append(1)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepper, "step", killed)
        with pytest.raises(KeyboardInterrupt):
            FITS[name](path, **changes)


def bits(name, model):
    """Return all that training came to, and what is filled by it."""
    if name == "MisGAN":
        return [*model.players.state_dict().values(), model.fill(IMAGES, SEEN)]
    return [*model.network.state_dict().values(), model.bounds, model.fill(TABLE)]


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_of_critics_are_counted_across_epochs_and_stops(path, monkeypatch):
    taken, step = [], Game.step_generators
    monkeypatch.setattr(
        Game, "step_generators", lambda self, *given: taken.append(1) or step(self, *given)
    )
    misgan()
    # Two batches in each epoch; every third step of the critics.
    assert len(taken) == 2 * EPOCHS // 3
    stopped("MisGAN", path, after=1)
    taken.clear()
    # None in the epoch that is done.
    misgan(path)
    assert len(taken) == 2 * EPOCHS // 3


@both
class TestGoingOn:
    # All epochs but the last; the generators have not stepped after the first.
    @pytest.mark.parametrize("after", range(1, EPOCHS))
    def test_it_ends_as_one_that_was_not_stopped(self, name, after, path):
        stopped(name, path, after)
        assert_same(bits(name, FITS[name](path)), bits(name, FITS[name]()))

    def test_it_may_be_stopped_again_and_again(self, name, path):
        for _ in range(EPOCHS - 1):
            stopped(name, path, after=1)
        assert_same(bits(name, FITS[name](path)), bits(name, FITS[name]()))

    def test_a_seed_that_nobody_chose_is_kept(self, name, path):
        stopped(name, path, after=2, random_state=7)
        found, whole = (
            FITS[name](own, random_state=seed) for own, seed in ((path, None), (None, 7))
        )
        assert found.seed == 7
        assert_same(bits(name, found), bits(name, whole))

    def test_what_is_done_is_not_trained_again(self, name, path, monkeypatch):
        whole = FITS[name](path)
        monkeypatch.setattr(STEPPERS[name], "step", lambda *_: pytest.fail("trained again"))
        assert_same(bits(name, FITS[name](path)), bits(name, whole))

    def test_it_says_where_it_begins(self, name, path, monkeypatch, capsys):
        monkeypatch.setattr(chains_progress, "BETWEEN_LINES", 0.0)
        stopped(name, path, after=2)
        FITS[name](path, progress=True)
        first, *lines = capsys.readouterr().err.splitlines()
        assert first == f"Training {name}: resuming at epoch 3 of {EPOCHS}"
        # Of every epoch after it, what one that was not stopped says.
        FITS[name](progress=True)
        whole = capsys.readouterr().err.splitlines()
        assert [own.split("; ")[1] for own in lines] == [own.split("; ")[1] for own in whole[2:]]

    def test_the_global_generator_is_left_alone(self, name, path):
        before = torch.get_rng_state()
        stopped(name, path, after=2)
        FITS[name](path)
        assert (torch.get_rng_state() == before).all()


OTHERS = {
    "MisGAN": [
        ({"random_state": 1}, "seed"),
        ({"epochs": EPOCHS + 1}, "epochs"),
        ({"learning_rate": 2e-3}, "learning_rate"),
        ({"critic_steps": 2}, "critic_steps"),
        ({"tau": 0.5}, "tau"),
        ({"images": IMAGES[::-1]}, "data"),
        # The same pixels; those of the first image are all seen, at 0.
        ({"seen": SEEN | (np.arange(20) == 0)[:, None, None]}, "data"),
    ],
    "MIWAE": [
        ({"random_state": 1}, "seed"),
        ({"epochs": EPOCHS + 1}, "epochs"),
        ({"learning_rate": 2e-3}, "learning_rate"),
        ({"training_samples": 3}, "training_samples"),
        ({"table": TABLE[::-1]}, "data"),
    ],
}


class TestRefusal:
    @pytest.mark.parametrize(
        ("name", "changes", "told"), [(name, *other) for name in OTHERS for other in OTHERS[name]]
    )
    def test_of_another_run(self, name, changes, told, path):
        stopped(name, path, after=1)
        with pytest.raises(CheckpointError, match=f"belongs to a different run .*{told}: "):
            FITS[name](path, **changes)

    @both
    def test_of_another_method_or_kind_of_device(self, name, path):
        stopped(name, path, after=1)
        identity = Checkpoint(path, {}).read_identity()
        assert identity["device"] == "cpu"
        (other,) = FITS.keys() - {name}
        with pytest.raises(CheckpointError, match="method: "):
            FITS[other](path)

    @both
    def test_of_what_is_damaged(self, name, path):
        stopped(name, path, after=1)
        whole = path.read_bytes()
        flipped = whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:]
        for damaged in (b"", whole[:-9], flipped):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match="delete it to start over"):
                FITS[name](path)


def test_training_does_not_depend_on_how_many_latents_fill(path):
    stopped("MIWAE", path, after=2, samples=50)
    assert_same(bits("MIWAE", miwae(path)), bits("MIWAE", miwae()))


def test_saving_takes_no_more_than_a_twentieth_of_the_time(path, monkeypatch):
    monkeypatch.undo()
    own = checkpoint_of(path, MiwaeImputer(), 0, torch.zeros(2))
    assert (own.every, own.rest) == (1, 20.0)
    assert checkpoint_of(None, MiwaeImputer(), 0, torch.zeros(2)) is None


def steppers():
    """Return an epoch of each, untrained."""
    data = torch.Generator().manual_seed(1)
    source = torch.Generator().manual_seed(0)
    weights = {"tau": 0.2, "alpha": 0.1, "beta": 0.1, "penalty": 10.0}
    weights |= {"learning_rate": 1e-2, "imputer_learning_rate": 1e-2}
    x = torch.rand(20, 1, 4, 4, generator=data)
    game = Game(Players((4, 4), latent=3, channels=2, width=8), source, **weights)
    yield MisganEpoch(Rounds(game, x, x < 0.5, 8), 2, 1e-2), source
    network, pace = Autoencoder(3, 2, 8, 2), {"epochs": 4, "batch_size": 16}
    rows = torch.randn(40, 3, generator=data)
    options = pace | {"samples": 2, "learning_rate": 1e-2}
    yield MiwaeEpoch(network, rows, rows < 0.5, source, **options), source


@pytest.mark.parametrize("place", range(2))
def test_numbers_are_put_back_to_where_a_replay_reads_them(place):
    epoch, source = [*steppers()][place]
    state, streams = Epochs(torch.tensor(0)), Streams([source], [1])
    with torch.no_grad():
        for _ in range(2):
            state, _ = epoch.step(state, streams)
        kept = {key: own.clone() for key, own in epoch.tensors().items()}
        epoch.step(state, streams)
    moved = epoch.tensors()
    lasting = {"critics.moment.0.step", "moment.0.step"} & kept.keys()
    assert lasting
    assert all(moved[key] != kept[key] for key in lasting)
    places = {key: own.data_ptr() for key, own in moved.items()}
    epoch.restore(kept)
    assert {key: own.data_ptr() for key, own in epoch.tensors().items()} == places
    assert all(torch.equal(own, kept[key]) for key, own in epoch.tensors().items())


def test_a_step_that_is_taken_while_miwae_is_captured_is_not_taken_twice(path, monkeypatch):
    def replayed(work, x, generators):
        work(x)
        return work

    monkeypatch.setattr(miwae_epoch, "replayed", replayed)
    stopped("MIWAE", path, after=2)
    found, whole = bits("MIWAE", miwae(path)), bits("MIWAE", miwae())
    assert_same(found, whole)
    # Negative control: that step is in the numbers.
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        assert_same(whole, bits("MIWAE", miwae()))


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Let steps be recorded on a CPU, too."""
    begin = Rounds.__init__

    def capturable(self, *given):
        begin(self, *given)
        self.capturable = True

    monkeypatch.setattr(Rounds, "__init__", capturable)
    monkeypatch.setattr(captured, "rehearse", lambda work: work())


def test_replays_of_misgan_go_on_alike(on_a_gpu, path, monkeypatch):
    records = []

    def record(work, generators):
        records.append(1)
        return (), work

    monkeypatch.setattr(captured, "record", record)
    stopped("MisGAN", path, after=3)
    found = bits("MisGAN", misgan(path))
    assert len(records) == 2
    monkeypatch.undo()
    assert_same(found, bits("MisGAN", misgan()))


def test_after_a_recording_that_failed_the_new_generator_is_saved(on_a_gpu, path, monkeypatch):
    def record(work, generators):
        (source,) = generators
        source.manual_seed(99)
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(captured, "record", record)
    with pytest.warns(CaptureWarning):
        stopped("MisGAN", path, after=3)
    monkeypatch.undo()
    assert_same(bits("MisGAN", misgan(path)), bits("MisGAN", misgan()))
