"""Decisions that a flat auxiliary density would overturn: the paper's figure."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plmcmc.diagnostics import Decisions as Decided
from plmcmc.experiments import experiment_of
from plmcmc.experiments.digits.masked import Case
from plmcmc.experiments.efficiency import decisions
from plmcmc.experiments.efficiency.decisions import curves_of, draw, share
from plmcmc.experiments.ledger import Ledger
from plmcmc.experiments.reproduce import reproduce
from plmcmc.experiments.study import Place
from plmcmc.flows import Linear
from plmcmc.kernels import Metropolis as MetropolisKernel
from plmcmc.target import ProjectedLatentTarget


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("decisions")


def run(output):
    said = []
    report = reproduce("decisions", "smoke", output=output, progress=False, say=said.append)
    return report, said


def test_smoke(output):
    report, said = run(output)
    assert "2 of 2 parts" in report
    assert "| accepted |" in report
    assert "| rejected |" in report
    assert (output / "decisions-smoke" / "decisions.png").stat().st_size > 10_000
    again, said = run(output)
    assert again == report
    assert said[0].startswith("decisions (smoke): 0 of 2")


def test_parts_say_the_same_twice_and_differ_from_others(output):
    study, place = experiment_of("decisions", "smoke"), Place(output, output / "shared")
    one, same, other = (study.run(f"replication {n}", place) for n in (0, 0, 1))
    for name, curve in one.arrays.items():
        assert np.array_equal(curve, same.arrays[name])
    assert not np.array_equal(one.arrays["accepted, taken"], other.arrays["accepted, taken"])


def test_settings_of_the_paper():
    study = experiment_of("decisions", "full")
    assert (study.auxiliary, study.perturb, study.resample) == (1e-3, 0.01, 1.0)
    assert (study.chains, len(study.parts())) == (100, 10)


class HandMade:
    """Stands for Metropolis: two chains from places that are given, to places that are given."""

    START = ((2.0, 0.0), (0.0, 1.0))
    # The first finds what was observed, and goes down in p(y_M; x_O); the second leaves it.
    GOES = ((0.0, 1.0), (20.0, 1.2))

    def __init__(self, perturb, resample, auxiliary):
        self.auxiliary = auxiliary

    def begin(self, batch, y, warmup, streams):
        goes = torch.tensor(self.GOES, dtype=torch.float64)
        target = ProjectedLatentTarget(batch.flow, batch.data, self.auxiliary)
        kernel = MetropolisKernel(target, lambda position, streams: (goes, torch.zeros(2)))
        # A latent is where it is decoded to: the flow is the identity.
        return kernel, target(torch.tensor(self.START, dtype=torch.float64)), 0


def test_the_probability_of_overturning_two_decisions_by_hand(tmp_path, monkeypatch):
    """A standard normal, x_O = 0, sigma_a = 1: all terms are squares.

    The first proposal: q rises by 2, p falls by .5. It is accepted for sure, by a flat density with
    probability e^-.5. The second: q falls by 200, p by .22. It is rejected but for e^-200, by a
    flat density accepted with probability e^-.22.
    """
    monkeypatch.setattr(decisions, "Metropolis", HandMade)
    flow = Linear.of_moments(torch.zeros(2), torch.eye(2)).double()
    zeros, ones = np.zeros(2), np.ones(2)
    case = Case(flow, zeros, ones, zeros, np.array([True, False]))
    task = SimpleNamespace(case=lambda place: case)
    study = decisions.Decisions(task, proposals=1, chains=2, auxiliary=1.0)
    found = study.run("replication 0", Place(tmp_path, tmp_path, progress=False)).numbers
    assert found["acceptance"] == 0.5
    assert found["accepted, all"] == pytest.approx(1 - np.exp(-0.5), abs=1e-5)
    assert found["rejected, all"] == pytest.approx(np.exp(-0.22), abs=1e-5)


def test_one_replication_has_no_error(output, tmp_path):
    run(output)
    found = Ledger(output / "decisions-smoke", experiment_of("decisions", "smoke").settings())
    one = {"replication 0": found["replication 0"]}
    report = experiment_of("decisions", "smoke").report(one, Place(tmp_path, tmp_path))
    assert "one replication, no error" in report
    assert "there is no envelope" in report
    assert "standard error" not in report
    both = experiment_of("decisions", "smoke").report(found, Place(tmp_path, tmp_path))
    assert "mean over 2 replications, with the standard error" in both
    assert "envelopes show one standard deviation" in both


class TestShares:
    """Averages weigh every decision alike, whichever proposal it was on."""

    FOUND = Decided(
        accepted_overturned=np.array([0.5, np.nan, 0.1, 0.3]),
        rejected_overturned=np.array([np.nan, 0.2, 0.4, 0.4]),
        acceptance=np.array([1.0, 0.0, 0.25, 0.75]),
    )

    def test_of_known_decisions(self):
        curves = curves_of(self.FOUND)
        assert all(np.isfinite(own).all() for own in curves.values())
        expected = (0.5 * 1 + 0.1 * 0.25 + 0.3 * 0.75) / 2
        assert share(curves, "accepted", 0, 1) == pytest.approx(expected)
        assert share(curves, "rejected", 0, 1) == pytest.approx((0.2 + 0.3 + 0.1) / 2)

    def test_of_a_stretch(self):
        curves = curves_of(self.FOUND)
        assert share(curves, "rejected", 0.5, 0.75) == pytest.approx(0.4)
        # A stretch too short for a proposal has one all the same.
        assert share(curves, "accepted", 0.0, 0.01) == pytest.approx(0.5)

    def test_where_nobody_decided_so(self):
        curves = curves_of(self.FOUND)
        assert share(curves, "accepted", 0.25, 0.5) is None
        assert share(curves, "rejected", 0.0, 0.25) is None

    def test_curves_with_gaps_are_drawn(self, tmp_path):
        draw(tmp_path / "curves.png", [curves_of(self.FOUND)] * 2)
        assert (tmp_path / "curves.png").stat().st_size > 10_000
