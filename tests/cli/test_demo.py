"""The demo writes what it says it writes, its numbers make sense, and it says what is chance."""

import io
import warnings
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

import plmcmc
from plmcmc.cli import main
from plmcmc.cli.demo import digits as demo_digits
from plmcmc.cli.demo import table as demo_table
from plmcmc.cli.demo.scores import Trial, verdicts
from plmcmc.posterior import ConvergenceWarning, Draws
from plmcmc.training import Fitted
from plmcmc.training.tables.settings import TableTraining
from toy_tables import TINY

LITTLE = replace(TINY, width=16, training=TableTraining(updates=30), chains=2, burn_in=6, states=4)
ROWS, COLUMNS = 569, 10
# Four standard errors if each row were one value, and as much again: no model is the truth.
COVERED = 0.9 + 8 * np.array([-1, 1]) * np.sqrt(0.9 * 0.1 / ROWS)


def untrained(images, seed):
    steps = [plmcmc.flows.Flatten((8, 8))]
    flow = plmcmc.Preprocessed(steps, plmcmc.RealNVP(64, random_state=seed))
    return Fitted(flow, [0.0], [0.0], 1)


def sampled(fitted, truth, observed, seed):
    values = np.broadcast_to(truth, (8, 6, *truth.shape)).copy()
    values += np.random.default_rng(seed).random(values.shape) * ~observed
    acceptance = np.full((8, len(truth)), 0.8)
    warnings.warn("a warning in words", ConvergenceWarning, stacklevel=1)
    return Draws(values, observed, acceptance, 1, 0, True, "auto", seed)


class Ran:
    """A demo with little effort: where it wrote, what it printed, and the methods' trials."""

    def __init__(self, output):
        self.output, self.trials, printed = output, {}, io.StringIO()
        shown = demo_table.score_table

        def spied(trials):
            self.trials |= {trial.method: trial for trial in trials}
            return shown(trials)

        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
            patch.setattr(demo_table, "EFFORT", LITTLE)
            patch.setattr(demo_table, "TREES", 5)
            patch.setattr(demo_table, "score_table", spied)
            patch.setattr(demo_digits, "trained_flow", untrained)
            patch.setattr(demo_digits, "_sampled", sampled)
            self.code = main(["demo", "--output", str(output)])
        self.printed = printed.getvalue()

    @property
    def ours(self):
        return self.trials[demo_table.OURS]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return Ran(tmp_path_factory.mktemp("demo") / "out")


@pytest.fixture(scope="module")
def truth():
    return load_breast_cancer(return_X_y=True)[0][:, :COLUMNS]


def read(path):
    return np.genfromtxt(path, delimiter=",", skip_header=1)


class TestFiles:
    def test_all_are_listed_and_no_others(self, ran):
        assert ran.code == 0
        lines = ran.printed.rsplit("Written to", 1)[1].splitlines()
        listed = [line.split()[0] for line in lines[2:-2] if not line.startswith(" ")]
        assert sorted(listed) == sorted(path.name for path in ran.output.iterdir())

    @pytest.mark.parametrize("name", ["table.png", "digits.png"])
    def test_pictures(self, name, ran):
        assert (ran.output / name).read_bytes().startswith(b"\x89PNG")

    def test_the_filled_table_keeps_what_was_seen(self, ran, truth):
        holes = read(ran.output / "table.csv")
        filled = read(ran.output / "table-filled.csv")
        seen = ~np.isnan(holes)
        assert np.array_equal(seen, ~ran.ours.missing)
        assert np.array_equal(filled[seen], truth[seen])
        assert np.isfinite(filled).all()
        assert f"All {seen.sum():,} observed values are unchanged" in ran.printed

    def test_a_seen_value_that_changed_is_noticed(self, ran, tmp_path):
        hiding = demo_table.hidden_half(0)
        filled = read(ran.output / "table-filled.csv")
        row, column = np.argwhere(~hiding.missing)[7]
        filled[row, column] = np.nextafter(filled[row, column], np.inf)
        pd.DataFrame(filled).to_csv(tmp_path / "changed.csv", index=False)
        with pytest.raises(RuntimeError, match="bug"):
            demo_table._unchanged(hiding, tmp_path / "changed.csv")

    def test_the_report_is_of_this_table(self, ran):
        page = (ran.output / "table-report.html").read_text()
        assert page.startswith("<!DOCTYPE html>")
        assert "mean fractal dimension" in page
        assert f"{ran.ours.missing.sum():,}" in page

    def test_the_saved_model_fills_the_same(self, ran):
        imputer = plmcmc.FlowImputer.load(ran.output / "table-model")
        again = imputer.transform(demo_table.hidden_half(0).table)
        assert np.array_equal(again.to_numpy(), ran.ours.filled)

    def test_the_digits_model_and_draws(self, ran):
        assert plmcmc.load(ran.output / "digits-flow").flow.features == 64
        assert Draws.load(ran.output / "digits-draws.safetensors").values.shape[0] == 8
        assert "R-hat, worst" in ran.printed
        assert "a warning in words" in ran.printed


class TestNumbers:
    def test_half_is_hidden(self, ran):
        # Five standard errors of a fair coin.
        assert abs(ran.ours.missing.mean() - 0.5) < 5 * 0.5 / np.sqrt(ROWS * COLUMNS)

    def test_the_mean_s_error_is_about_one(self, ran):
        errors = ran.trials["mean of the column"].row_errors
        assert abs(errors.mean() - 1) < 4 * errors.std() / np.sqrt(len(errors))

    def test_ours_is_below_the_mean_s(self, ran):
        assert ran.ours.nmse < ran.trials["mean of the column"].nmse
        assert ran.ours.row_errors.mean() == pytest.approx(ran.ours.nmse)

    @pytest.mark.parametrize("method", [demo_table.OURS, "Gaussian EM"])
    def test_intervals_hold_about_nine_tenths(self, method, ran):
        assert COVERED[0] < ran.trials[method].coverage < COVERED[1]

    def test_intervals_too_short_do_not(self, ran):
        """Negative control."""
        middle = np.median(ran.ours.drawn, axis=0)
        assert replace(ran.ours, drawn=(ran.ours.drawn + middle) / 2).coverage < COVERED[0]

    def test_they_are_printed(self, ran):
        for trial in ran.trials.values():
            line = next(x for x in ran.printed.splitlines() if x.startswith(f"│ {trial.method} "))
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            score = "-" if trial.crps is None else f"{trial.crps:.3f}"
            share = "-" if trial.coverage is None else f"{trial.coverage:.1%}"
            assert cells[:4] == [trial.method, f"{trial.nmse:.3f}", score, share]


class TestVerdict:
    """On made-up errors: a method that is clearly better, and two that differ by chance."""

    def trial(self, method, error, noise, *, seed=0, rows=400):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=(rows, 3))
        noise = np.random.default_rng(noise).normal(size=(20, rows, 3))
        drawn = truth + error * noise
        missing = np.ones_like(truth, dtype=bool)
        return Trial(method, truth, missing, drawn[0], drawn, 0.0)

    def test_clearly_better(self):
        found = verdicts([self.trial("bad", 1.0, 1), self.trial("good", 0.5, 2)])
        assert found == [f"Lowest {m}: good, by more than chance." for m in ("NMSE", "CRPS")]

    def test_chance(self):
        trials = [self.trial("one", 0.5, 1), self.trial("other", 0.5, 2)]
        for words in verdicts(trials):
            assert words.endswith("rule out chance: one.") or words.endswith(
                "rule out chance: other."
            )

    def test_chance_and_one_that_is_behind(self):
        trials = [self.trial("bad", 1.0, 3), self.trial("one", 0.5, 1), self.trial("other", 0.5, 2)]
        for words in verdicts(trials):
            assert "rule out chance" in words
            assert "bad" not in words
            assert words.endswith("The rest are behind by more than chance.")

    def test_rows_count_not_their_entries(self):
        """The same errors in every entry of a row are evidence of one."""
        one, other = self.trial("one", 0.5, 1), self.trial("other", 0.53, 2)
        wide = [
            replace(
                t,
                **{f: np.tile(getattr(t, f), 40) for f in ("truth", "missing", "filled", "drawn")},
            )
            for t in (one, other)
        ]
        assert [w.split(". ")[1:] for w in verdicts(wide)] == [
            w.split(". ")[1:] for w in verdicts([one, other])
        ]

    def test_who_has_no_draws_is_left_out_of_their_score(self):
        silent = replace(self.trial("silent", 0.1, 1), drawn=None)
        found = verdicts([silent, self.trial("loud", 0.5, 2)])
        assert found[0].startswith("Lowest NMSE: silent")
        assert found[1].startswith("Lowest CRPS: loud")
