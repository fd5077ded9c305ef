"""The four studies of efficiency: what is varied, what is kept, and what is drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest

from plmcmc.experiments import CATALOGUE, SCALES, experiment_of
from plmcmc.experiments.efficiency.figures import on_a_grid
from plmcmc.experiments.efficiency.studies import CONVERGED, STUDIES, Efficiency, shown
from plmcmc.experiments.efficiency.words import ends_of
from plmcmc.experiments.reproduce import reproduce
from plmcmc.experiments.study import Found, Place
from plmcmc.posterior.methods import Metropolis
from plmcmc.target import FlatAuxiliary, NormalAuxiliary


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("efficiency")


def run(name, output, **options):
    said = []
    report = reproduce(name, "smoke", output=output, progress=False, say=said.append, **options)
    return report, said


class TestSmoke:
    """All four end to end; they share the flow and the converged mean."""

    @pytest.mark.parametrize("name", STUDIES)
    def test_runs_reports_and_draws(self, name, output):
        report, _ = run(name, output)
        place = output / f"{name}-smoke"
        study = experiment_of(name, "smoke")
        lines = (place / "numbers.jsonl").read_text().splitlines()
        assert len(lines) == 1 + len(study.parts())
        assert "nan" not in report
        for variant in (*study.variants(), "Gibbs", "plmcmc"):
            assert f"| {variant} |" in report
        for picture in ("curves.png", "means.png"):
            assert picture in report
            assert (place / picture).stat().st_size > 10_000

    def test_a_second_run_runs_nothing(self, output):
        name = "efficiency-auxiliary"
        first, _ = run(name, output)
        again, said = run(name, output)
        assert again == first
        assert said[0].startswith(f"{name} (smoke): 0 of")

    def test_the_flow_and_the_mean_are_made_once(self, output):
        for name in ("efficiency-auxiliary", "efficiency-resample"):
            run(name, output, only=CONVERGED)
        assert len(list((output / "shared").glob("digits-*"))) == 1
        assert len(list((output / "shared").glob("converged-*"))) == 1

    def test_only_the_mean(self, tmp_path):
        report, _ = run("efficiency-auxiliary", tmp_path, only=CONVERGED)
        assert "R-hat" in report
        assert "Where curves end" not in report


class TestParts:
    @pytest.fixture
    def place(self, output):
        return Place(output, output / "shared", progress=False)

    @pytest.mark.parametrize("name", ["sigma_a 10^-3", "sigma_a 10^-6", "Gibbs"])
    def test_say_the_same_twice_and_differ_from_others(self, name, place):
        study = experiment_of("efficiency-auxiliary", "smoke")
        one, same, other = (study.run(f"{name}, replication {n}", place) for n in (0, 0, 1))
        for kind, curve in one.arrays.items():
            assert np.array_equal(curve, same.arrays[kind], equal_nan=True)
        assert not np.array_equal(one.arrays["RMSE"], other.arrays["RMSE"])

    def test_do_not_depend_on_how_many_there_are(self, place):
        study = experiment_of("efficiency-auxiliary", "smoke")
        more = replace(study, replications=7, scales=(1e-3,))
        assert more.settings() == study.settings()
        one, same = (own.run("sigma_a 10^-3, replication 0", place) for own in (study, more))
        assert np.array_equal(one.arrays["RMSE"], same.arrays["RMSE"])

    def test_curves_begin_where_all_begin(self, place):
        """The same start, whatever is varied: samples of the flow at temperature 1."""
        study = experiment_of("efficiency-perturbation", "smoke")
        names = ("sigma_p 0.01", "sigma_p 1", "Gibbs")
        found = [study.run(f"{name}, replication 0", place).arrays for name in names]
        first = [own["RMSE"][0] for own in found]
        np.testing.assert_allclose(first, first[0], rtol=1e-5)
        assert [own["passes"][0] for own in found] == [0, 0, 0]

    def test_numbers_are_json(self, place):
        study = experiment_of("efficiency-auxiliary", "smoke")
        for part in study.parts()[:2]:
            json.dumps(study.run(part, place).numbers, allow_nan=False)


class TestVariants:
    def test_of_the_auxiliary_are_the_paper_s(self):
        study = experiment_of("efficiency-auxiliary", "full")
        assert study.variants() == {
            "sigma_a infinity": Metropolis(0.01, 1.0, FlatAuxiliary()),
            "sigma_a 10^-1.5": Metropolis(0.01, 1.0, NormalAuxiliary(10**-1.5)),
            "sigma_a 10^-3": Metropolis(0.01, 1.0, NormalAuxiliary(1e-3)),
            "sigma_a 10^-6": Metropolis(0.01, 1.0, NormalAuxiliary(1e-6)),
        }

    def test_alone_never_resample_but_for_the_reference(self):
        study = experiment_of("efficiency-no-resample", "full")
        *alone, reference = study.variants().values()
        assert {method.resample for method in alone} == {None}
        assert reference == Metropolis(0.01, 1.0, NormalAuxiliary(1e-3))

    @pytest.mark.parametrize(
        ("name", "reference"),
        [
            ("efficiency-auxiliary", "sigma_a 10^-3"),
            ("efficiency-perturbation", "sigma_p 0.01"),
            ("efficiency-no-resample", "default"),
            ("efficiency-resample", "sigma_r 1"),
        ],
    )
    def test_one_is_the_paper_s_default(self, name, reference):
        assert experiment_of(name, "full").reference == reference

    def test_settings_of_the_paper(self):
        for name in STUDIES:
            study = experiment_of(name, "full")
            assert (study.chains, study.replications, study.proposals) == (100, 10, 2000)
            assert len(study.parts()) == 1 + 10 * (len(study.variants()) + 2)

    @pytest.mark.parametrize("scale", SCALES)
    def test_settings_are_json(self, scale):
        for name in STUDIES:
            json.dumps(experiment_of(name, scale).settings(), allow_nan=False)
            assert CATALOGUE[name].module == "efficiency.studies"

    def test_what_cannot_be_varied_is_refused(self):
        with pytest.raises(ValueError, match="varied must be sigma_a or one of"):
            Efficiency("sigma_b").variants()

    @pytest.mark.parametrize(
        ("scale", "words"),
        [(None, "infinity"), (10**-1.5, "10^-1.5"), (1e-3, "10^-3"), (0.1, "0.1"), (1.0, "1")],
    )
    def test_scales_as_the_paper_writes_them(self, scale, words):
        assert shown(scale) == words


class TestCurves:
    """Summaries of curves that are known."""

    @staticmethod
    def curve(passes, heights):
        passes = np.array(passes)
        return Found(
            {},
            {
                "passes": passes,
                "proposals": passes // 2,
                "RMSE": np.array(heights, dtype=np.float64),
                "RMSE to the converged mean": np.array(heights) / 2,
                "acceptance": np.array([np.nan, *heights[1:]]),
            },
        )

    def test_of_different_passes_meet_where_all_have_been(self):
        """Trajectories cost what tuning found: no two replications are told at the same passes."""
        runs = [self.curve([10, 20, 30], [1, 2, 3]), self.curve([14, 24, 44], [1, 2, 4])]
        grid, curves = on_a_grid(runs, "passes", "RMSE")
        assert grid.tolist() == [14, 22, 30]
        np.testing.assert_allclose(curves, [[1.4, 2.2, 3.0], [1.0, 1.8, 2.6]])

    def test_of_acceptance_begin_after_the_first_proposals(self):
        runs = [self.curve([0, 20, 40], [5, 0.2, 0.4])] * 2
        grid, curves = on_a_grid(runs, "passes", "acceptance")
        assert grid.tolist() == [20, 40]
        np.testing.assert_allclose(curves, [[0.2, 0.4]] * 2)

    def test_end_where_they_end(self):
        heights = np.linspace(1, 0.5, 21)
        own = self.curve(range(0, 42, 2), heights).arrays
        found = ends_of(own)
        assert found["RMSE"] == 0.5
        assert found["RMSE to the converged mean"] == 0.25
        assert found["accepted, first tenth"] == pytest.approx(heights[1:3].mean())
        assert found["accepted, last tenth"] == pytest.approx(heights[-2:].mean())
        assert (found["proposals"], found["passes"]) == (20, 40)
