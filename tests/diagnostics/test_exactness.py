"""The self-test passes where all is well, and fails on planted bugs."""

import pytest
import torch

from plmcmc.diagnostics import exactness, self_test
from plmcmc.diagnostics.exactness import _closed_form, _invariance, _quadrature
from plmcmc.flows import RealNVP
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget, Point

CPU = torch.device("cpu")


def shared_noise(monkeypatch):
    """All chains move as the first does."""
    own = Streams.normal
    monkeypatch.setattr(
        Streams, "normal", lambda self, like: own(self, like)[:1].expand_as(like).contiguous()
    )


def no_volume(monkeypatch):
    """The density forgets the log-determinant, and its slopes with it."""

    def density(self, position):
        completion, log_slope = self._complete(position)
        z, _ = self.flow.to_latent(completion)
        found = self.flow.latent_log_prob(z).double() + log_slope
        return Point(completion if self.warp is None else position, completion, found)

    monkeypatch.setattr(ConditionalTarget, "__call__", density)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Bugs as gross as these are seen in a few chains."""
    monkeypatch.setattr(exactness, "CHAINS", 600)
    monkeypatch.setattr(exactness, "ROWS", 300)


@pytest.mark.filterwarnings("ignore::plmcmc.ConvergenceWarning")
@pytest.mark.parametrize(
    ("plant", "compare"),
    [(shared_noise, _closed_form), (no_volume, _quadrature), (no_volume, _invariance)],
)
def test_each_comparison_convicts_a_planted_bug(plant, compare, monkeypatch):
    plant(monkeypatch)
    passed, words = compare(CPU)
    assert not passed, words


def test_what_raises_has_failed(monkeypatch):
    """A flow that does not undo itself is refused before anything is drawn."""
    own = RealNVP.to_latent
    monkeypatch.setattr(
        RealNVP, "to_latent", lambda self, x: (own(self, x)[0], torch.zeros(len(x)).double())
    )
    found = {own.name: own for own in self_test()}
    assert not found["quadrature"].passed
    assert "BrokenFlow: RealNVP breaks its promises" in found["quadrature"].words
    assert not found["invariance"].passed
