"""The four studies of efficiency: what is varied, what is kept, and what is drawn."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plmcmc.experiments import CATALOGUE, SCALES, experiment_of
from plmcmc.experiments.digits.masked import Case
from plmcmc.experiments.efficiency import studies
from plmcmc.experiments.efficiency.captions import ends_of
from plmcmc.experiments.efficiency.converged import Truth
from plmcmc.experiments.efficiency.figures import _envelope, _lines, looks_of, on_a_grid
from plmcmc.experiments.efficiency.studies import CONVERGED, STUDIES, Efficiency, shown
from plmcmc.experiments.reproduce import reproduce
from plmcmc.experiments.study import Found, Place
from plmcmc.flows import Linear
from plmcmc.kernels import Info
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
        shown = {"default": "sigma_p .01, sigma_r 1 (the paper's)"}
        for variant in study.variants():
            assert f"| {shown.get(variant, variant)} |" in report
        # The paper's sampler and ours by one name each, never by the names of parts.
        for words in ("| Gibbs |", "| plmcmc's default sampler |", "PL-MCMC (Algorithm 1)"):
            assert words in report
        # Those of parts stand only where parts are named.
        found = report.partition("## Results")[2].partition("## How we read the paper")[0]
        for words in ("| plmcmc |", "| default |"):
            assert words not in found
        # One replication: no error is announced, and no envelope.
        assert "one replication, no error" in report
        assert "there is no envelope" in report
        assert "standard error" not in report
        for picture in ("curves.png", "means.png"):
            assert picture in report
            assert (place / picture).stat().st_size > 10_000
        # However many studies there were before.
        for shared in ("digits", "converged"):
            assert len(list((output / "shared").glob(f"{shared}-*"))) == 1

    def test_a_second_run_runs_nothing(self, output):
        name = "efficiency-auxiliary"
        first, _ = run(name, output)
        again, said = run(name, output)
        assert again == first
        assert said[0].startswith(f"{name} (smoke): 0 of")

    def test_only_the_mean(self, output, tmp_path):
        (output / "shared").mkdir(exist_ok=True)
        (tmp_path / "shared").symlink_to(output / "shared")
        report, _ = run("efficiency-auxiliary", tmp_path, only=CONVERGED)
        assert "R-hat" in report
        assert "Values at the end of the curves" not in report


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

    def test_only_the_finest_auxiliary_is_run_in_float64(self, place, monkeypatch):
        asked, right = [], studies.follow

        def watched(conditional, method, **options):
            dtypes = {part.dtype for part in conditional.flow.parameters()}
            asked.append((dtypes | {conditional.data.values.dtype}, method.auxiliary))
            return right(conditional, method, **options)

        monkeypatch.setattr(studies, "follow", watched)
        study = experiment_of("efficiency-auxiliary", "smoke")
        for name in study.variants():
            study.run(f"{name}, replication 0", place)
        assert asked == [
            ({torch.float32}, FlatAuxiliary()),
            ({torch.float32}, NormalAuxiliary(10**-1.5)),
            ({torch.float32}, NormalAuxiliary(1e-3)),
            # Float32 cannot tell y_O from x_O there.
            ({torch.float64}, NormalAuxiliary(1e-6)),
        ]

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


class Given:
    """A task, or a mean to come to, that is there already."""

    def __init__(self, own):
        self.own = own

    def case(self, place):
        return self.own

    def truth(self, case, place):
        return self.own


class TestByHand:
    """What curves are of, from states that are given: two chains, four pixels, two of them hidden.

    Whitened by a mean of 10 and a scale of 2, so that an error of 1 is one of 2 pixels.
    """

    # Completions of both chains, whitened, at the start and after two proposals.
    STATES = (
        [[0, 0, 0, 0], [0, 0, 4, 0]],
        [[0, 0, 2, 2], [0, 0, 0, 2]],
        [[0, 0, 1, 0], [0, 0, 2, 6]],
    )
    ACCEPTED = ([True, False], [True, True])
    MEAN = (10.0, 10.0, 11.0, 12.0)

    def run(self, monkeypatch, tmp_path):
        states = torch.tensor(self.STATES, dtype=torch.float32)
        counted = iter(range(1, 3))

        class Kernel:
            def step(self, state, streams):
                number = next(counted)
                info = Info(torch.tensor(ByHand.ACCEPTED[number - 1]), torch.zeros(2), 2)
                return SimpleNamespace(completion=states[number]), info

        class Method:
            def begin(self, batch, y, warmup, streams):
                return Kernel(), SimpleNamespace(completion=states[0]), 0

        ByHand = type(self)
        monkeypatch.setattr(Efficiency, "_method", lambda *_: Method())
        observed = np.array([True, True, False, False])
        flow = Linear.of_moments(torch.zeros(4), torch.eye(4))
        case = Case(flow, np.full(4, 10.0), np.full(4, 2.0), np.full(4, 10.0), observed)
        truth = Truth(np.array(self.MEAN), *[np.zeros(4)] * 3)
        study = Efficiency("sigma_a", Given(case), Given(truth), proposals=2, chains=2, moments=2)
        place = Place(tmp_path, tmp_path, progress=False)
        return study.run("sigma_a 10^-3, replication 0", place)

    def test_errors_are_of_the_mean_over_chains_at_that_proposal(self, monkeypatch, tmp_path):
        found = self.run(monkeypatch, tmp_path)
        # Means of the hidden pixels, whitened: (2, 0), (1, 2), (1.5, 3); not running averages,
        # nor means of the chains' own errors.
        off = np.array([[2, 0], [1, 2], [1.5, 3]]) * 2
        expected = np.sqrt((off**2).mean(1))
        np.testing.assert_allclose(found.arrays["RMSE"], expected, rtol=1e-6)
        apart = np.sqrt(((off - [1, 2]) ** 2).mean(1))
        np.testing.assert_allclose(found.arrays["RMSE to the converged mean"], apart, rtol=1e-6)
        assert found.numbers["RMSE"] == pytest.approx(expected[-1], abs=1e-5)
        np.testing.assert_allclose(found.arrays["mean"], [10, 10, 13, 16])

    def test_acceptance_is_over_all_chains_since_the_point_before(self, monkeypatch, tmp_path):
        found = self.run(monkeypatch, tmp_path).arrays
        assert found["proposals"].tolist() == [0, 1, 2]
        assert found["passes"].tolist() == [0, 2, 4]
        np.testing.assert_array_equal(found["acceptance"], [np.nan, 0.5, 1.0])


@pytest.mark.parametrize("name", [*STUDIES, "decisions"])
def test_how_the_paper_is_read_is_told(name):
    told = " ".join(experiment_of(name, "full").readings)
    for words in ("bfloat16", "4 couplings with 5 hidden layers", "with a scale of 1"):
        assert words in told
    assert ("For constant pixels, the Gibbs proposal" in told) == (name != "decisions")
    # Ours by its one name.
    assert "plmcmc" not in told.replace("plmcmc's default sampler", "")


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

    def test_are_drawn_beside_a_mean_of_as_many_exact_draws(self):
        drawn = {}

        class Panel:
            def axhline(self, height, **look):
                drawn[look["label"]] = height

        converged = Found({"RMSE": 0.3, "noise": 0.4})
        _lines(Panel(), "RMSE", converged, 7)
        assert drawn == {"mean of 7 exact draws": pytest.approx(0.5)}
        _lines(Panel(), "RMSE to the converged mean", converged, 8)
        assert drawn["mean of 8 exact draws"] == 0.4

    def test_have_envelopes_of_one_deviation(self, monkeypatch):
        """Of a sample of replications: over one less than there are."""
        drawn = {}

        class Panel:
            def plot(self, grid, middle, **look):
                drawn["middle"] = middle

            def fill_between(self, grid, low, high, **options):
                drawn["low"], drawn["high"] = low, high

        runs = [self.curve([2, 4, 6], heights) for heights in ([5, 4, 3], [6, 5, 5], [7, 6, 10])]
        look = looks_of(["one"], "")["one"]
        _envelope(Panel(), runs, "passes", "RMSE", "one", look)
        np.testing.assert_allclose(drawn["middle"], [6, 5, 6])
        np.testing.assert_allclose(drawn["high"] - [6, 5, 6], [1, 1, 13**0.5])
        np.testing.assert_allclose([6, 5, 6] - drawn["low"], [1, 1, 13**0.5])
        _envelope(Panel(), runs[:1], "passes", "RMSE", "one", look)
        np.testing.assert_array_equal(drawn["high"], drawn["middle"])

    def test_leave_out_the_start_on_a_logarithmic_axis(self):
        seen = []

        class Panel:
            def plot(self, grid, middle, **look):
                seen.append(grid.tolist())

            def fill_between(self, *_, **__): ...

        runs, look = [self.curve([0, 2, 4], [3, 2, 1])], looks_of(["one"], "")["one"]
        for across in ("passes", "proposals"):
            _envelope(Panel(), runs, across, "RMSE", "one", look)
        assert seen == [[2, 4], [0, 1, 2]]

    def test_are_told_apart_when_they_lie_on_one_another(self):
        names = ["a", "b", "c", "d", "e", "Gibbs", "plmcmc"]
        looks = looks_of(names, "c")
        assert looks["c"].color == "tab:red"
        for kind in ("color", "marker", "markevery", "linewidth"):
            assert len({getattr(look, kind) for look in looks.values()}) == len(names)
        # Drawn in this order: what comes later is thinner.
        widths = [look.linewidth for look in looks.values()]
        assert widths == sorted(widths, reverse=True)

    def test_end_where_they_end(self):
        heights = np.linspace(1, 0.5, 21)
        own = self.curve(range(0, 42, 2), heights).arrays
        found = ends_of(own)
        assert found["RMSE"] == 0.5
        assert found["RMSE to the converged mean"] == 0.25
        assert found["accepted, first tenth"] == pytest.approx(heights[1:3].mean())
        assert found["accepted, last tenth"] == pytest.approx(heights[-2:].mean())
        assert (found["proposals"], found["passes"]) == (20, 40)
