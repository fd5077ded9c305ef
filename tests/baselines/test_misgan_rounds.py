"""MisGAN's steps that are replayed: the same training, number for number.

A graph needs a GPU; here a replay works through the step again, in the same tensors.
"""

import warnings

import pytest
import torch

from plmcmc.baselines.misgan_game import Game
from plmcmc.baselines.misgan_networks import Players
from plmcmc.baselines.misgan_rounds import FIRST, Rounds
from plmcmc.flows import full_precision
from plmcmc.flows.passes import captured
from plmcmc.training.ascent import CaptureWarning

ROWS, SIZE, STEPS, CRITIC_STEPS = 20, (4, 4), 12, 2


class Recorder:
    """Stands in for graphs: counts records and replays."""

    def __init__(self, monkeypatch, *, refuses=None, after=0, moves=False):
        self.records = self.replays = 0
        self.refuses, self.after, self.moves = refuses, after, moves
        monkeypatch.setattr(captured, "rehearse", lambda work: work())
        monkeypatch.setattr(captured, "record", self.record)

    def record(self, work, generators):
        (source,) = generators
        if self.refuses and self.records == self.after:
            source.manual_seed(99)
            raise self.refuses("operation not permitted when stream is capturing")
        self.records += 1
        if self.moves:
            work()

        def replay():
            self.replays += 1
            work()

        return (), replay


def rounds_of(device="cpu", *, capturable):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        players = Players(SIZE, latent=3, channels=2, width=8).to(device)
    source = torch.Generator(device).manual_seed(0)
    weights = {"tau": 0.2, "alpha": 0.1, "beta": 0.1, "penalty": 10.0}
    weights |= {"learning_rate": 1e-2, "imputer_learning_rate": 1e-2}
    data = torch.Generator().manual_seed(1)
    x, holes = (torch.rand(ROWS, 1, *SIZE, generator=data) for _ in range(2))
    observed = holes < 0.5
    x = torch.where(observed, x, 0.0)
    own = Rounds(Game(players, source, **weights), x.to(device), observed.to(device), 8)
    own.capturable = capturable
    return own


def trained(rounds):
    """Return all losses as they add up, and all weights."""
    seen = []
    for step in range(1, STEPS + 1):
        source, device = rounds.game.source, rounds.x.device
        batch = torch.randperm(ROWS, generator=source, device=device)[:8]
        rounds.critics(batch)
        if step % CRITIC_STEPS == 0:
            rounds.generators(batch)
        seen.append(rounds.loss.clone())
    return [*seen, *(weight.detach().clone() for weight in rounds.game.players.parameters())]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_same_training(monkeypatch):
    recorder = Recorder(monkeypatch)
    assert same(trained(rounds_of(capturable=True)), trained(rounds_of(capturable=False)))
    assert recorder.records == 2
    assert recorder.replays == STEPS + STEPS // CRITIC_STEPS - 2 * FIRST


def test_a_step_too_many_would_be_seen(monkeypatch):
    """Negative control: a recording that steps by itself."""
    Recorder(monkeypatch, moves=True)
    assert not same(trained(rounds_of(capturable=True)), trained(rounds_of(capturable=False)))


@pytest.mark.parametrize("after", [0, 1])
def test_what_cannot_be_recorded_runs_as_it_is(monkeypatch, after):
    recorder = Recorder(monkeypatch, refuses=RuntimeError, after=after)
    own = rounds_of(capturable=True)
    before = own.game.source
    with pytest.warns(CaptureWarning, match="launching their operations one by one"):
        found = trained(own)
    assert same(found, trained(rounds_of(capturable=False)))
    # A failed recording spoils the generator, and what was recorded before draws from it.
    assert own.game.source is not before
    assert (recorder.records, own.replays) == (after, {})


def test_too_little_memory_to_record_is_said(monkeypatch):
    Recorder(monkeypatch, refuses=torch.OutOfMemoryError)
    with pytest.raises(torch.OutOfMemoryError):
        trained(rounds_of(capturable=True))


def test_a_cpu_records_nothing():
    own = rounds_of(capturable=True)
    assert not Rounds(own.game, own.x, own.observed, 8).capturable


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
def test_a_gpu_s_graphs_step_alike():
    own, plain = (rounds_of("cuda", capturable=capturable) for capturable in (True, False))
    with full_precision(), warnings.catch_warnings():
        warnings.simplefilter("error", CaptureWarning)
        found, expected = trained(own), trained(plain)
    assert set(own.replays) == {"critics", "generators"}
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
