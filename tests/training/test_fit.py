"""Training: the likelihood that was promised, the best epoch kept, and clear refusals."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import chi2, norm

import plmcmc
from plmcmc.chains import CheckpointError
from plmcmc.data import DataError, Incomplete, observed_moments
from plmcmc.flows import (
    NICE,
    Dequantise,
    Flatten,
    Linear,
    Logit,
    Preprocessed,
    RealNVP,
    Whiten,
    log_prob,
    sample,
)
from plmcmc.training import FaultWarning, TrainingError, fit_flow
from plmcmc.training.fit import _split
from toys import DEVIATIONS, Handing, correlated
from tracing import tracing


def rows_of(flow, rows, seed=0):
    with torch.no_grad():
        return sample(flow, rows, torch.Generator().manual_seed(seed))


def normals(rows=200, columns=2, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def whitened(x, flow):
    return Preprocessed([Whiten(*observed_moments(Incomplete.of(x)))], flow)


def mean_log_prob(flow, x):
    with torch.no_grad():
        return float(log_prob(flow, x).mean())


class TestLikelihood:
    """A Gaussian is learnt by a linear flow up to the error of estimating its parameters."""

    ROWS, HELD_OUT, PARAMETERS = 3000, 0.2, 5
    OPTIONS: ClassVar = {"noise": 0.0, "weight_decay": 0.0, "batch_size": 200, "random_state": 0}

    def test_reaches_the_truth(self):
        truth = correlated(2)
        x = rows_of(truth, self.ROWS)
        flow = Linear(2).double()
        train, judge = _split(flow, x, self.HELD_OUT, 0)
        before = mean_log_prob(flow, judge)
        fitted = fit_flow(
            flow, x, epochs=60, learning_rate=0.1, held_out=self.HELD_OUT, **self.OPTIONS
        )
        with torch.no_grad():
            gaps = (log_prob(truth, judge) - log_prob(flow, judge)).numpy()
        # The divergence of a fit of k parameters to n rows is chi2_k / 2n; the log-ratio of two
        # close densities has twice the divergence as its variance.
        divergence = chi2.isf(1e-5, self.PARAMETERS) / (2 * len(train))
        allowed = divergence + norm.isf(1e-5) * math.sqrt(2 * divergence / len(judge))
        assert gaps.mean() < allowed < 0.05
        assert before < mean_log_prob(flow, judge) - 1
        assert max(fitted.held_out) == pytest.approx(mean_log_prob(flow, judge), abs=1e-12)

    def test_history_comes_near_the_entropy(self):
        truth = correlated(2)
        x = rows_of(truth, self.ROWS)
        fitted = fit_flow(
            Linear(2).double(), x, epochs=60, learning_rate=0.1, held_out=0.2, **self.OPTIONS
        )
        entropy = 1 + math.log(2 * math.pi) + float(truth.log_diagonal.detach().sum())
        # The log-density of a d-dimensional normal has variance d / 2 = 1.
        error = 1 / math.sqrt(0.2 * self.ROWS)
        assert abs(fitted.held_out[-1] + entropy) < DEVIATIONS * error
        assert abs(fitted.train[-1] + entropy) < DEVIATIONS / math.sqrt(0.8 * self.ROWS)

    def test_a_curved_flow_learns_what_a_straight_one_cannot(self):
        source = torch.Generator().manual_seed(0)
        first = torch.randn(1500, generator=source)
        bent = first.square() + 0.3 * torch.randn(1500, generator=source)
        x = torch.stack([first, bent], 1)
        x = (x - x.mean(0)) / x.std(0)
        options = {"epochs": 25, "noise": 0.02, "random_state": 0, "learning_rate": 1e-2}
        straight = fit_flow(Linear(2), x, **options)
        curved = fit_flow(RealNVP(2, width=32, random_state=0), x, **options)
        assert max(curved.held_out) > max(straight.held_out) + 0.3


class TestBestEpoch:
    """Few rows and many weights: the flow overfits, and is stopped."""

    OPTIONS: ClassVar = {
        "epochs": 200,
        "noise": 0.0,
        "learning_rate": 1e-2,
        "patience": 5,
        "held_out": 0.3,
    }
    X = normals(60, 3)

    def fitted(self, **options):
        flow = RealNVP(3, width=32, random_state=0)
        return fit_flow(flow, self.X, random_state=1, **self.OPTIONS | options)

    def test_training_stops_after_the_patience(self):
        fitted = self.fitted()
        assert len(fitted.train) == len(fitted.held_out) == fitted.best_epoch + 5 < 200

    def test_the_best_weights_are_kept(self):
        fitted = self.fitted()
        _, judge = _split(fitted.flow, self.X, 0.3, 1)
        assert fitted.held_out[fitted.best_epoch - 1] == max(fitted.held_out)
        assert mean_log_prob(fitted.flow, judge) == pytest.approx(max(fitted.held_out), abs=1e-9)
        # Otherwise the last ones would do as well.
        assert fitted.held_out[-1] < max(fitted.held_out) - 1e-3

    def test_more_patience_sees_the_same_epochs_and_more(self):
        short, long = self.fitted(), self.fitted(patience=9)
        assert long.held_out[: len(short.held_out)] == short.held_out
        assert len(long.held_out) == long.best_epoch + 9

    def test_nothing_held_out_trains_to_the_end(self):
        fitted = self.fitted(held_out=0, epochs=8, patience=1)
        assert len(fitted.train) == 8
        assert fitted.best_epoch == 8
        assert np.isnan(fitted.held_out).all()
        train, judge = _split(fitted.flow, self.X, 0.0, 1)
        assert (len(train), len(judge)) == (60, 0)

    def test_the_flow_comes_back_in_eval_mode(self):
        assert not self.fitted(epochs=2).flow.training
        behind = whitened(self.X, RealNVP(3, width=4, random_state=0))
        assert not any(
            module.training for module in fit_flow(behind, self.X, epochs=1).flow.modules()
        )

    def test_a_nan_score_is_never_the_best(self):
        class Fragile(Handing):
            """Scores NaN from its third epoch on, but only when it is judged."""

            def __init__(self):
                super().__init__(Linear(3))
                self.judged = 0

            def to_latent(self, x):
                z, log_det = self.flow.to_latent(x)
                if not self.training:
                    self.judged += 1
                    log_det = log_det * (math.nan if self.judged > 2 else 1)
                return z, log_det

        fitted = fit_flow(Fragile(), self.X + 3, epochs=20, patience=4, random_state=0)
        assert np.isfinite(fitted.held_out).tolist() == [True] * 2 + [False] * 4
        assert fitted.best_epoch == 2


class TestNoise:
    """Noise widens what is learnt by its own deviation, in the units of the flow's inside."""

    ROWS, NOISE = 2000, 0.5

    def deviation(self, flow, x):
        """Deviation of the fitted normal, in units of the caller's."""
        options = {"epochs": 40, "learning_rate": 0.05, "batch_size": 500, "held_out": 0.0}
        fit_flow(flow, x, noise=self.NOISE, weight_decay=0.0, random_state=0, **options)
        return float(rows_of(flow, 20000).std())

    @pytest.mark.parametrize("scale", [0.1, 1.0])
    def test_without_whitening_the_units_are_the_datas(self, scale):
        x = scale * normals(self.ROWS, 1)
        expected = math.sqrt(float(x.var()) + self.NOISE**2)
        assert self.deviation(Linear(1), x) == pytest.approx(expected, rel=self.tolerance())

    @pytest.mark.parametrize("scale", [0.01, 100.0])
    def test_behind_whitening_one_unit_is_one_deviation(self, scale):
        x = 5 + scale * normals(self.ROWS, 1)
        expected = float(x.std()) * math.sqrt(1 + self.NOISE**2)
        found = self.deviation(whitened(x, Linear(1)), x)
        assert found == pytest.approx(expected, rel=self.tolerance())

    def tolerance(self):
        """A deviation of n normals has relative error 1 / sqrt(2 n): of those seen, noise and all
        (the last epochs' average over some ten draws of the noise), and of those drawn to judge."""
        return DEVIATIONS * (1 / math.sqrt(2 * self.ROWS) + 1 / math.sqrt(2 * 20000))

    def test_tolerance_would_see_other_units(self):
        """Negative control: without noise the deviation is smaller by more than is forgiven."""
        assert 1 - 1 / math.sqrt(1 + self.NOISE**2) > 1.1 * self.tolerance()

    def test_history_is_in_the_callers_units(self):
        x = 100 * normals(300, 2)
        flow = whitened(x, Linear(2))
        fitted = fit_flow(flow, x, epochs=3, random_state=0)
        _, judge = _split(flow, x, 0.1, 0)
        assert fitted.held_out[fitted.best_epoch - 1] == pytest.approx(mean_log_prob(flow, judge))
        # Two columns: a row's log-density has deviation 1; whitened units would be off by 9.
        error = DEVIATIONS * (1 / math.sqrt(270) + 1 / math.sqrt(30))
        assert abs(fitted.train[-1] - fitted.held_out[-1]) < error < 2 * math.log(100)


class TestPreprocessed:
    def test_only_the_inner_flow_is_trained(self):
        x = 50 + 20 * normals()
        flow = whitened(x, RealNVP(2, width=8, random_state=0))
        steps = {key: value.clone() for key, value in flow.steps.state_dict().items()}
        inner = {key: value.clone() for key, value in flow.flow.state_dict().items()}
        fit_flow(flow, x, epochs=3, random_state=0)
        assert steps
        assert all(torch.equal(value, steps[key]) for key, value in flow.steps.state_dict().items())
        assert any(not torch.equal(v, inner[key]) for key, v in flow.flow.state_dict().items())

    def test_whole_numbers_in_images(self):
        source = torch.Generator().manual_seed(0)
        x = torch.randint(0, 4, (120, 2, 2), generator=source).float()
        flow = Preprocessed([Dequantise(4), Logit(), Flatten((2, 2))], NICE(4, random_state=0))
        one = fit_flow(flow, x, epochs=3, random_state=0)
        assert np.isfinite(one.train + one.held_out).all()
        # Uniform over 4 values of 4 pixels, with density 4^-4. The ratio of any other density to it
        # has mean 1, and so does its product over the 12 rows: by Markov it is not 1e5.
        assert max(one.held_out) < -4 * math.log(4) + math.log(1e5) / 12

    def test_another_whitening_is_another_run(self, tmp_path):
        x = normals()
        options = {"epochs": 2, "random_state": 0, "checkpoint": tmp_path / "fit"}
        fit_flow(whitened(x, Linear(2)), x, **options)
        with pytest.raises(CheckpointError, match=r"a different run \(flow: "):
            fit_flow(whitened(2 * x, Linear(2)), x, **options)


class TestSeed:
    def test_the_same_seed_repeats_the_weights(self):
        one, two = (
            fit_flow(RealNVP(2, width=8, random_state=0), normals(), epochs=3, random_state=4)
            for _ in range(2)
        )
        assert one[1:] == two[1:]
        pairs = zip(one.flow.parameters(), two.flow.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)

    def test_another_seed_gives_others(self):
        one, two = (fit_flow(Linear(2), normals(), epochs=3, random_state=s) for s in (4, 5))
        assert one.train != two.train

    @pytest.mark.parametrize("random_state", [None, 0])
    def test_global_generators_are_left_alone(self, random_state):
        x = normals()
        flow = whitened(x, RealNVP(2, width=8, random_state=0))
        torchs, numpys = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        fit_flow(flow, x, epochs=2, random_state=random_state)
        assert torch.equal(torch.get_rng_state(), torchs)
        assert np.array_equal(np.random.get_state()[1], numpys)  # noqa: NPY002

    def test_gradients_stay_switched_on_for_the_caller(self):
        fit_flow(Linear(2), normals(), epochs=1, random_state=0)
        assert torch.is_grad_enabled()


class TestRefusals:
    def test_a_hole_names_the_row(self):
        x = normals()
        x[17, 1] = torch.nan
        with pytest.raises(
            DataError, match="missing values at row 17: fit_flow trains on complete rows"
        ):
            fit_flow(Linear(2), x)

    def test_infinity_names_the_place(self):
        x = normals()
        x[17, 1] = torch.inf
        with pytest.raises(DataError, match="infinite at row 17, column 1"):
            fit_flow(Linear(2), x)

    @pytest.mark.parametrize("columns", [1, 3])
    def test_another_width_than_the_flows(self, columns):
        with pytest.raises(DataError, match=rf"shape \(2,\); those of x have \({columns},\)"):
            fit_flow(Linear(2), normals(columns=columns))

    def test_integers(self):
        with pytest.raises(DataError, match=r"x\.astype\(float\)"):
            fit_flow(Linear(2), np.ones((20, 2), dtype=int))

    def test_no_parameters(self):
        with pytest.raises(TypeError, match="not a flow that plmcmc knows"):
            fit_flow(object(), normals())
        frozen = Linear(2).requires_grad_(False)
        with pytest.raises(TrainingError, match="Linear has no parameters to train"):
            fit_flow(frozen, normals())

    @pytest.mark.parametrize(("rows", "held_out"), [(1, 0.1), (3, 0.1), (2, 0.9)])
    def test_too_few_rows_to_hold_some_out(self, rows, held_out):
        with pytest.raises(TrainingError, match=f"{rows} rows cannot be split with held_out="):
            fit_flow(Linear(2), normals(rows), held_out=held_out)

    @pytest.mark.parametrize("rows", [1, 2])
    def test_tiny_data_with_nothing_held_out(self, rows):
        fitted = fit_flow(Linear(2), normals(rows), held_out=0, epochs=2, random_state=0)
        assert np.isfinite(fitted.train).all()

    @pytest.mark.parametrize("held_out", [-0.1, 1.0, 1.5])
    def test_held_out_is_a_share(self, held_out):
        with pytest.raises(TrainingError, match=r"in \[0, 1\); got"):
            fit_flow(Linear(2), normals(), held_out=held_out)

    @pytest.mark.parametrize("name", ["epochs", "batch_size", "patience"])
    def test_numbers_below_one(self, name):
        with pytest.raises(TrainingError, match=f"{name} must be at least 1; got 0"):
            fit_flow(Linear(2), normals(), **{name: 0})
        with pytest.raises(TrainingError, match=f"{name} must be a whole number; got 1.5"):
            fit_flow(Linear(2), normals(), **{name: 1.5})

    @pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf, "fast"])
    def test_no_learning_rate(self, rate):
        with pytest.raises(TrainingError, match="learning_rate must be a positive number"):
            fit_flow(Linear(2), normals(), learning_rate=rate)

    def test_a_loss_of_nan_says_what_to_try(self):
        with (
            pytest.warns(FaultWarning),
            pytest.raises(TrainingError, match=r"NaN or infinite in epoch \d, 5 times") as error,
        ):
            fit_flow(Linear(2), 3 + normals(), learning_rate=1e5, noise=0.1, random_state=0)
        for advice in ("lower learning_rate (now 100000.0)", "raise noise (now 0.1)", "whiten"):
            assert advice in str(error.value)

    def test_held_out_rows_that_the_preprocessing_cannot_take(self):
        x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
        _, judge = _split(Linear(2), x, 0.1, 0)
        x[(x == judge[0]).all(1)] = 7.0
        flow = Preprocessed([Logit()], Linear(2))
        with pytest.raises(TrainingError, match="4 held-out rows never had a finite likelihood"):
            fit_flow(flow, x, epochs=5, random_state=0)


def test_steps_may_be_compiled_and_go_where_others_go():
    found = {}
    for compiled in (False, True):
        with tracing() as traces:
            flow = NICE(2, width=8, depth=1, random_state=0)
            options = {"epochs": 2, "batch_size": 50, "compiled": compiled, "random_state": 0}
            found[compiled] = fit_flow(flow, normals(), **options).train
        assert bool(traces) == compiled
    assert found[True] == pytest.approx(found[False], rel=1e-5)


def test_the_front_door_has_it():
    assert plmcmc.fit_flow is fit_flow


def test_rates_grow_in_the_first_epoch_and_fall_along_a_cosine(monkeypatch):
    rates, step = [], torch.optim.AdamW.step

    def noted(self, *args, **options):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *args, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    options = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01, "held_out": 0.0}
    fit_flow(RealNVP(2, random_state=0), torch.randn(64, 2), **options, random_state=0)
    done = np.arange(12) / 4
    falling = 0.5 * (1 + np.cos(np.pi * done / 3))
    np.testing.assert_allclose(rates, 0.01 * falling * np.minimum(1.0, 0.02 + done))
