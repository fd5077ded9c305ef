"""Decisions that a flat auxiliary density would overturn: the paper's figure."""

import numpy as np
import pytest

from plmcmc.diagnostics import Decisions as Decided
from plmcmc.experiments import experiment_of
from plmcmc.experiments.efficiency.decisions import curves_of, draw, share
from plmcmc.experiments.reproduce import reproduce
from plmcmc.experiments.study import Place


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
