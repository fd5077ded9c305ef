"""Monte Carlo EM: near Gaussian EM from rows with holes, far from it without E-steps."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from plmcmc import methods
from plmcmc.chains import Checkpoint, CheckpointError, Unconditional
from plmcmc.chains import progress as chains_progress
from plmcmc.data import DataError
from plmcmc.flows import NICE, Flatten, Linear, Preprocessed, Whiten, load, log_prob, save
from plmcmc.flows.passes.lowered import is_lowered
from plmcmc.posterior import ConvergenceWarning
from plmcmc.target import NormalAuxiliary
from plmcmc.training import (
    EMSchedule,
    FaultWarning,
    MonteCarloEM,
    TrainingError,
    double,
    paper,
    paper_mnist,
    undouble,
)
from plmcmc.training import completed as m_step
from plmcmc.training.presets import TABLES
from plmcmc.training.resuming import moments_of
from plmcmc.training.schedule import OPTIMIZERS
from plmcmc.training.tables.gaussian import expectation_maximisation
from tracing import tracing

MEAN = torch.tensor([10.0, -2.0, 0.0], dtype=torch.float64)
SPREAD = torch.tensor([3.0, 0.5, 1.0], dtype=torch.float64)
CORRELATION = torch.tensor([[1, 0.8, 0.6], [0.8, 1, 0.7], [0.6, 0.7, 1]], dtype=torch.float64)
# The paper's kernel with wide moves and a wide auxiliary, which three columns can afford.
FAST = methods.Metropolis(perturb=0.4, resample=1.0, auxiliary=NormalAuxiliary(1.0))
SHORT = EMSchedule(epochs=6, every=2, proposals=10, copies=3, batch_size=64, method=FAST)
CLOSE = EMSchedule(
    epochs=125,
    every=5,
    proposals=30,
    copies=10,
    batch_size=500,
    optimizer="adam",
    learning_rate=0.01,
    method=FAST,
    clamp=False,  # Clamping cuts tails off, which Gaussian EM does not.
)


def rows_with_holes(rows, seed=0):
    source = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, 3, generator=source, dtype=torch.float64)
    x = MEAN + SPREAD * (noise @ torch.linalg.cholesky(CORRELATION).mT)
    x[torch.rand(rows, 3, generator=source) < 0.3] = torch.nan
    return x


def moments(fitted):
    """Return mean and covariance of a fitted linear flow, in the user's units."""
    (whiten,), linear = fitted.flow.chain, fitted.flow.flow
    with torch.no_grad():
        factor = whiten.scale[:, None] * linear.factor()
        return (whiten.mean + whiten.scale * linear.shift).double(), (factor @ factor.T).double()


def off(covariance, wanted):
    """Return the largest error of a covariance, in deviations of its columns."""
    spread = wanted.diagonal().sqrt()
    return float(((covariance - wanted) / (spread[:, None] * spread)).abs().max())


@pytest.fixture(scope="module")
def fitted():
    return MonteCarloEM(CLOSE).fit(Linear(3), rows_with_holes(400), random_state=0)


def test_moments_are_near_gaussian_em_s_and_not_without_e_steps(fitted):
    x = rows_with_holes(400)
    seen = ~x.isnan()
    exact = expectation_maximisation(x, seen, ridge=0.0)
    mean, covariance = moments(fitted)
    # Ten copies of 400 rows, 30% of them noise: a moment is off by about .02.
    assert float(((mean - exact.mean) / exact.covariance.diagonal().sqrt()).abs().max()) < 0.05
    assert off(covariance, exact.covariance) < 0.06
    # Rows filled with column means: each variance loses its missing share.
    filled = torch.where(seen, x, x.nanmean(0))
    assert off(torch.cov(filled.T, correction=0), exact.covariance) > 0.3
    # Holes that stay N(0, I): each covariance loses half.
    never = MonteCarloEM(replace(CLOSE, every=CLOSE.epochs)).fit(Linear(3), x, random_state=0)
    assert never.acceptance == []
    assert off(moments(never)[1], exact.covariance) > 0.3
    # Chains that move: fresh draws are accepted, too.
    assert len(fitted.acceptance) == 24
    assert 0.2 < min(fitted.acceptance) <= max(fitted.acceptance) < 0.9


def test_losses_are_in_the_user_s_units(fitted):
    rows = torch.as_tensor(fitted.completed).float().flatten(0, 1)
    with torch.no_grad():
        z, log_det = fitted.flow.to_latent(rows)
        score = float((fitted.flow.latent_log_prob(z) + log_det).mean())
    assert fitted.losses[-1] == pytest.approx(-score, abs=0.05)


def test_losses_of_a_flow_behind_preprocessing_are_in_the_user_s_units():
    steps = [Whiten(torch.zeros(3), torch.tensor([2.0, 0.5, 8.0]))]
    # Weights hardly change in an epoch: all but rounding is the same before it and after.
    schedule = replace(SHORT, learning_rate=1e-9)
    x = rows_with_holes(90)
    fitted = MonteCarloEM(schedule).fit(Preprocessed(steps, Linear(3)), x, random_state=0)
    rows = torch.as_tensor(fitted.completed).flatten(0, 1).float()
    score = float(log_prob(fitted.flow, rows).detach().mean())
    assert fitted.losses[-1] == pytest.approx(-score, abs=1e-3)


@pytest.mark.parametrize("method", [FAST, methods.DataMetropolis(step=0.5), "elliptical"])
def test_observed_values_stay_and_completions_are_within_their_range(method):
    x = rows_with_holes(90).numpy()
    fitted = MonteCarloEM(replace(SHORT, method=method)).fit(Linear(3), x, random_state=1)
    assert fitted.completed.shape == (3, 90, 3)
    seen = ~np.isnan(x)
    for copy in fitted.completed:
        assert np.array_equal(copy[seen], x[seen])
    low, high = np.nanmin(x, 0), np.nanmax(x, 0)
    assert (low <= fitted.completed).all()
    assert (fitted.completed <= high).all()
    # Copies are chains of their own.
    assert (fitted.completed.std(0)[~seen] > 0).mean() > 0.9
    assert len(fitted.acceptance) == 2


def test_the_flow_trains_on_clamped_rows_and_unclamped_ones_leave_the_range(monkeypatch):
    trained = []

    def spy(flow, x, *args, **options):
        trained.append(x)
        return torch.zeros(())

    monkeypatch.setattr(m_step, "maximise", spy)
    x = rows_with_holes(200)
    # Hardly anything seen at all: without clamping, imputed extremes are beyond the seen ones.
    x[20:, 1] = torch.nan
    MonteCarloEM(SHORT).fit(Linear(3), x, random_state=2)
    seen = ~x[:, 1].isnan()
    low, high = trained[-1].unflatten(0, (200, 3))[seen, 0, 1].aminmax()
    # The first epochs' holes are fresh in each, and not clamped; an E-step's stay for two epochs.
    assert not torch.equal(trained[0], trained[1])
    assert float(trained[1][:, 1].max()) > float(high)
    assert torch.equal(trained[2], trained[3])
    assert not torch.equal(trained[3], trained[4])
    for completed in trained[2:]:
        assert float(low) <= float(completed[:, 1].min())
        assert float(completed[:, 1].max()) <= float(high)
    trained.clear()
    MonteCarloEM(replace(SHORT, clamp=False)).fit(Linear(3), x, random_state=2)
    assert float(trained[-1][:, 1].max()) > float(high)


def test_chains_start_where_they_stopped(monkeypatch):
    starts, begin = [], methods.Metropolis.begin

    def spy(self, batch, y, warmup, streams):
        starts.append(y)
        return begin(self, batch, y, warmup, streams)

    monkeypatch.setattr(methods.Metropolis, "begin", spy)
    # Steps too small to go anywhere: the second E-step must find what the first one left.
    still = methods.Metropolis(perturb=1e-9, resample=None, auxiliary=NormalAuxiliary(1.0))
    settings = replace(SHORT, method=still, clamp=False)
    MonteCarloEM(settings).fit(Linear(3), rows_with_holes(90), random_state=3)
    torch.testing.assert_close(starts[0], starts[1], atol=1e-4, rtol=0)
    # Which is the first epochs' noise, of each copy its own.
    assert float(starts[0].unflatten(0, (-1, 3)).std(1).max()) > 1


def test_chains_start_where_the_schedule_says(monkeypatch):
    starts, begin = [], methods.Metropolis.begin

    def spy(self, batch, y, warmup, streams):
        starts.append((y, batch.data))
        return begin(self, batch, y, warmup, streams)

    monkeypatch.setattr(methods.Metropolis, "begin", spy)
    settings = replace(SHORT, start=Unconditional(projected=False))
    MonteCarloEM(settings).fit(Linear(3), rows_with_holes(90), random_state=3)
    (first, data), (second, _) = starts
    assert not torch.equal(first, second)
    # Samples of the flow: what is observed was not put in.
    assert not torch.isclose(first, data.values)[data.observed].any()


def test_chains_that_never_move_are_told_of():
    tight = methods.Metropolis(perturb=1.0, resample=1.0, auxiliary=NormalAuxiliary(1e-6))
    with pytest.warns(ConvergenceWarning, match="of the rows moved"):
        MonteCarloEM(replace(SHORT, method=tight)).fit(Linear(3), rows_with_holes(90))


@pytest.mark.parametrize(
    ("rates", "told"),
    # Nothing is seen of the first three rows.
    [
        ([0, 0, 0, 0.5, 0.5, 0.5], None),
        ([0.5, 0.5, 0.5, 0, 0, 0.5], "67% of the rows"),
        ([0.5, 0.5, 0.5, 0, 0.5, 0.5], None),
    ],
)
def test_rows_of_which_nothing_is_seen_are_not_told_of(rates, told, monkeypatch):
    x = rows_with_holes(6)
    x[:3], x[3:] = torch.nan, torch.tensor([1.0, 2.0, torch.nan])

    def walked(self, conditional, method, y, blocks, epoch):
        return y, torch.tensor(rates).double()[blocks[0].start : blocks[-1].stop]

    monkeypatch.setattr(m_step.CompletedEpoch, "_walked", walked)
    em = MonteCarloEM(replace(SHORT, epochs=3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        em.fit(Linear(3), x, random_state=0)
    found = [str(own.message) for own in caught if own.category is ConvergenceWarning]
    assert len(found) == (told is not None)
    assert all(f"no chain of {told} moved" in own for own in found)


def test_starts_and_chains_of_every_e_step_have_random_numbers_of_their_own(monkeypatch):
    seeds, begin, unconditional = [], methods.Metropolis.begin, Unconditional(projected=False)

    def noted(streams):
        seeds.append({source.initial_seed() for source in streams.generators})

    def start(flow, data, streams):
        noted(streams)
        return unconditional(flow, data, streams)

    def spy(self, batch, y, warmup, streams):
        noted(streams)
        return begin(self, batch, y, warmup, streams)

    monkeypatch.setattr(methods.Metropolis, "begin", spy)
    x = rows_with_holes(90)
    MonteCarloEM(replace(SHORT, start=start)).fit(Linear(3), x, random_state=3)
    # Two E-steps, of starts and chains each.
    assert len(seeds) == 4
    assert len(set().union(*seeds)) == sum(len(own) for own in seeds)


def test_acceptance_is_told_where_something_was_proposed(monkeypatch, capsys):
    monkeypatch.setattr(chains_progress, "BETWEEN_LINES", 0.0)
    x = rows_with_holes(90)
    MonteCarloEM(SHORT).fit(Linear(3), x, random_state=0, progress=True)
    lines = capsys.readouterr().err.splitlines()
    told = [line.endswith("% accepted") for line in lines]
    assert told == [epoch >= SHORT.every for epoch in range(1, SHORT.epochs + 1)]
    whole = x[~np.isnan(np.asarray(x)).any(1)]
    MonteCarloEM(SHORT).fit(Linear(3), whole, random_state=0, progress=True)
    told = capsys.readouterr().err
    assert told.count("nats per row") == SHORT.epochs
    assert "nan" not in told
    assert "accepted" not in told


@pytest.mark.parametrize("optimizer", ["adamax", "rmsprop", "adam"])
def test_a_resumed_run_ends_as_one_that_was_not_stopped(optimizer, tmp_path, monkeypatch, capsys):
    momentum = 0.9 if optimizer == "rmsprop" else 0.0
    em = MonteCarloEM(replace(SHORT, optimizer=optimizer, momentum=momentum))
    x, file = rows_with_holes(90), tmp_path / "run.safetensors"

    def trained(checkpoint=None, seed=4):
        flow = NICE(3, width=8, depth=1, random_state=0)
        return em.fit(flow, x, random_state=seed, checkpoint=checkpoint, progress=True)

    whole, maximise, done = trained(), m_step.maximise, []

    def killed(*args, **options):
        if len(done) == 3:  # One E-step is saved, one is yet to come.
            raise KeyboardInterrupt
        done.append(1)
        return maximise(*args, **options)

    monkeypatch.setattr(m_step, "maximise", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(file)
    monkeypatch.setattr(m_step, "maximise", maximise)
    assert "resuming" not in capsys.readouterr().err
    resumed = trained(file, seed=None)
    told = f"Monte Carlo EM: resuming at epoch {SHORT.every + 1} of {SHORT.epochs}\n"
    assert told == capsys.readouterr().err
    assert resumed.losses == whole.losses
    assert resumed.acceptance == whole.acceptance
    assert np.array_equal(resumed.completed, whole.completed)
    for key, value in whole.flow.state_dict().items():
        assert torch.equal(resumed.flow.state_dict()[key], value)
    with pytest.raises(CheckpointError, match="a different run"):
        trained(file, seed=5)


def test_only_the_run_that_was_saved_goes_on(tmp_path, monkeypatch):
    x, file = rows_with_holes(90), tmp_path / "run.safetensors"
    x[0] = 0.0

    def trained(schedule=SHORT, x=x, activation="relu"):
        # Of any activation, weights have the same names and sizes.
        flow = NICE(3, width=8, depth=1, activation=activation, random_state=0)
        return MonteCarloEM(schedule).fit(flow, x, random_state=4, checkpoint=file)

    trained()
    # That of a GPU draws other numbers.
    assert Checkpoint(file, {}).read_identity()["device"] == "cpu"
    monkeypatch.setattr(m_step, "maximise", lambda *_, **__: pytest.fail("went on"))
    moved, hidden = x.clone(), x.clone()
    moved[0, 0], hidden[0, 0] = 1e-3, torch.nan
    for other, told in (
        ({"schedule": replace(SHORT, learning_rate=1e-3)}, "schedule"),
        ({"x": moved}, "data"),
        ({"x": hidden}, "data"),
        ({"activation": "tanh"}, "flow"),
    ):
        with pytest.raises(CheckpointError, match=rf"a different run \({told}: "):
            trained(**other)


def test_other_seeds_differ_and_made_up_moments_are_the_optimizer_s_own():
    x = rows_with_holes(90)
    first, second = (MonteCarloEM(SHORT).fit(Linear(3), x, random_state=s) for s in (0, 1))
    assert not np.array_equal(first.completed, second.completed)
    for maker in OPTIMIZERS.values():
        ends = []
        for made_up in (True, False):
            parameter = torch.nn.Parameter(torch.ones(3))
            optimizer = maker([parameter], lr=2e-3)
            if made_up:
                assert moments_of(optimizer)
            for _ in range(3):
                optimizer.zero_grad()
                (parameter * torch.arange(3.0)).square().sum().backward()
                optimizer.step()
            ends.append(parameter.detach())
        assert torch.equal(*ends)


def test_complete_rows_and_images_and_preprocessed_flows_are_trained_too(tmp_path):
    source = torch.Generator().manual_seed(5)
    rows = torch.randn(70, 3, generator=source)
    complete = MonteCarloEM(SHORT).fit(Linear(3), rows, random_state=0)
    assert complete.acceptance == []
    assert np.array_equal(complete.completed[0], complete.completed[2])
    images = torch.randn(70, 2, 2, generator=source)
    images[:30, 0, 1] = torch.nan
    images[:, 1, 1] = torch.nan  # Never seen: a column of its own prior.
    flow = Preprocessed([Flatten((2, 2))], Linear(4))
    fitted = MonteCarloEM(SHORT).fit(flow, images, random_state=0)
    assert fitted.completed.shape == (3, 70, 2, 2)
    assert np.isfinite(fitted.completed).all()
    # It has no range to be held within: some 200 draws are on both sides of 0.
    assert fitted.completed[..., 1, 1].min() < 0 < fitted.completed[..., 1, 1].max()
    # What comes out is a flow on the user's data that can be kept.
    save(fitted.flow, tmp_path / "flow")
    rows = torch.as_tensor(fitted.completed[0])
    kept = load(tmp_path / "flow")
    assert torch.equal(kept.to_latent(rows)[0], fitted.flow.to_latent(rows)[0])


def test_chains_and_networks_compute_in_the_precision_asked_for(monkeypatch):
    seen, own = [], m_step.CompletedEpoch._walked

    def watched(self, conditional, *others):
        seen.append(conditional)
        return own(self, conditional, *others)

    monkeypatch.setattr(m_step.CompletedEpoch, "_walked", watched)
    x = rows_with_holes(40)
    losses = {}
    for precision in ("float32", "bfloat16"):
        schedule = EMSchedule(epochs=4, every=2, proposals=3, copies=1, precision=precision)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            flow = NICE(x.shape[1], width=8, depth=1, random_state=0)
            losses[precision] = MonteCarloEM(schedule).fit(flow, x, random_state=0).losses
        assert {is_lowered(conditional.flow) for conditional in seen} == {precision != "float32"}
        seen.clear()
    # The first epoch's, before any chain: networks round, a little.
    assert losses["bfloat16"][1] != losses["float32"][1]
    assert losses["bfloat16"][1] == pytest.approx(losses["float32"][1], abs=0.05)
    with pytest.raises(TrainingError, match="needs a flow in float32; this one is in float64"):
        MonteCarloEM(EMSchedule(precision="bfloat16")).fit(NICE(3).double(), x)
    with pytest.raises(TrainingError, match=r"NICE, RealNVP\); got Linear"):
        MonteCarloEM(EMSchedule(precision="bfloat16")).fit(Linear(x.shape[1]), x)


def test_noise_widens_what_is_learned():
    # Complete: in whitened units every column has variance 1, and the noise's is added to it.
    x = MEAN + SPREAD * torch.randn(400, 3, generator=torch.Generator().manual_seed(0)).double()
    schedule = replace(CLOSE, copies=1, epochs=400, noise=1.0, batch_size=400)
    fitted = MonteCarloEM(schedule).fit(Linear(3), x, random_state=0)
    spread = np.sqrt(np.diag(moments(fitted)[1])) / x.numpy().std(0)
    # A deviation of 400 values has a relative error of 3.5%; noise is fresh in every step.
    np.testing.assert_allclose(spread, 2**0.5, rtol=0.06)
    with pytest.raises(TrainingError, match="noise must be a standard deviation"):
        EMSchedule(noise=-1.0)


@pytest.mark.parametrize(
    "method",
    [SHORT.method, methods.DataHamiltonian(turns=2, tuning=2), methods.Pullback(), methods.Auto()],
)
def test_steps_may_be_compiled(method):
    x, losses = rows_with_holes(70), {}
    for compiled in (False, True):
        flow = NICE(x.shape[1], width=8, depth=1, random_state=0)
        with warnings.catch_warnings(), tracing() as traces:
            warnings.simplefilter("ignore", ConvergenceWarning)
            schedule = replace(SHORT, compiled=compiled, method=method)
            losses[compiled] = MonteCarloEM(schedule).fit(flow, x, random_state=0).losses
        assert bool(traces) == compiled
        # Chains that ask for slopes: their coordinates' warp is compiled with the flow.
        sloped = compiled and method is not SHORT.method
        assert any("asinh" in own.code for own in traces) == sloped
    # Rounding differs, and chains amplify it; a different decision would show in the third digit.
    assert losses[True] == pytest.approx(losses[False], rel=1e-4)


def test_auto_looks_at_a_flow_that_is_not_in_training(monkeypatch):
    """Networks with batch norm take no single row while they train, and dropout is random."""
    seen, choose = [], methods.Auto.choose

    def watched(self, batch):
        seen.append(batch.flow.training)
        return choose(self, batch)

    monkeypatch.setattr(methods.Auto, "choose", watched)
    MonteCarloEM(replace(SHORT, method=methods.Auto())).fit(Linear(3), rows_with_holes(40))
    assert seen
    assert not any(seen)


def test_auto_takes_a_flow_without_derivatives(monkeypatch):
    monkeypatch.setattr("plmcmc.posterior.methods.pullback.differentiable", lambda *_: False)
    begun, begin = [], methods.Elliptical.begin

    def watched(self, *given):
        begun.append(self)
        return begin(self, *given)

    monkeypatch.setattr(methods.Elliptical, "begin", watched)
    with pytest.warns(UserWarning, match="no derivatives"):
        MonteCarloEM(replace(SHORT, method=methods.Auto())).fit(Linear(3), rows_with_holes(40))
    assert begun


def test_what_cannot_be_trained_is_refused():
    x = rows_with_holes(70)
    with pytest.raises(TrainingError, match="proposals must be at least 1"):
        EMSchedule(proposals=0)
    with pytest.raises(TrainingError, match="optimizer must be one of"):
        EMSchedule(optimizer="sgd")
    with pytest.raises(TrainingError, match="falling must be a fraction of the epochs"):
        EMSchedule(falling=-0.1)
    with pytest.raises(TrainingError, match="momentum is only for RMSprop"):
        EMSchedule(momentum=0.9)
    for wrong in (
        {"learning_rate": -1.0},
        {"clip": 0.0},
        {"epochs": 2.5},
        {"start": Unconditional},
    ):
        with pytest.raises(TrainingError, match=f"{next(iter(wrong))} must be"):
            EMSchedule(**wrong)
    with pytest.raises(TypeError, match="schedule must be an EMSchedule"):
        MonteCarloEM({"epochs": 2})
    with pytest.raises(TrainingError, match="increasing order"):
        EMSchedule(later=((9, FAST), (5, FAST)))
    with pytest.raises(DataError, match="shape"):
        MonteCarloEM(SHORT).fit(Linear(2), x)
    with pytest.warns(FaultWarning), pytest.raises(TrainingError, match="lower learning_rate"):
        MonteCarloEM(replace(SHORT, learning_rate=1e6)).fit(Linear(3), x, random_state=0)


def test_the_presets_have_the_paper_s_numbers():
    wine = paper("white-wine")
    assert wine.schedule.batch_size == 10_000
    assert (wine.features, wine.width, wine.latent, wine.draws) == (12, 120, "normal", 25)
    assert (wine.schedule.epochs, wine.schedule.every, wine.schedule.copies) == (1000, 50, 10)
    assert (wine.schedule.optimizer, wine.schedule.learning_rate) == ("adamax", 0.002)
    assert wine.schedule.proposals == 2000
    assert wine.schedule.method == methods.Metropolis(0.01, 1.0, NormalAuxiliary(1e-3))
    flow = wine.flow(random_state=0)
    assert flow.config["couplings"] == 4
    assert flow.config["depth"] == 5
    assert [name for name in TABLES if paper(name).doubled] == ["concrete"]
    with pytest.raises(ValueError, match="name must be one of"):
        paper("wine")


def test_mnist_resamples_less_after_500_epochs():
    preset = paper_mnist()
    schedule = preset.schedule
    assert (preset.features, preset.width, preset.latent) == (784, 1000, "logistic")
    assert (schedule.optimizer, schedule.learning_rate, schedule.momentum) == ("rmsprop", 1e-5, 0.9)
    assert (schedule.batch_size, schedule.copies) == (200, 1)
    assert schedule.method_after(450) == methods.Metropolis(0.05, 1.814, NormalAuxiliary(1e-3))
    assert schedule.method_after(500) == methods.Metropolis(0.05, 0.5, NormalAuxiliary(1e-3))
    # It is a standard logistic's own deviation.
    assert math.isclose(math.pi / math.sqrt(3), 1.814, abs_tol=5e-4)
    assert [e for e in range(1, 1001) if schedule.expects(e)] == list(range(50, 1000, 50))


def test_a_doubled_column_s_copy_is_one_more_draw():
    x = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]])
    doubled = double(x)
    assert doubled.shape == (2, 6)
    assert np.array_equal(double(~np.isnan(x)), ~np.isnan(doubled))
    draws = np.arange(5 * 2 * 6.0).reshape(5, 2, 6)
    back = undouble(draws)
    assert back.shape == (10, 2, 3)
    assert np.array_equal(back[:5], draws[..., :3])
    assert np.array_equal(back[5:], draws[..., 3:])
    assert np.array_equal(undouble(doubled[None])[1], x, equal_nan=True)
    with pytest.raises(ValueError, match="even number of columns"):
        undouble(draws[..., :5])


def test_a_falling_rate_ends_near_nothing_and_a_resumed_run_goes_on_with_it(tmp_path, monkeypatch):
    x, rates = rows_with_holes(60), []
    schedule = replace(SHORT, falling=0.5)
    before = m_step.set_rate
    monkeypatch.setattr(
        m_step, "set_rate", lambda own, rate: rates.append(rate) or before(own, rate)
    )
    whole = MonteCarloEM(schedule).fit(Linear(3).double(), x, random_state=0)
    share = [1, 1, 1, 1, 0.75, 0.25]
    np.testing.assert_allclose(rates, [schedule.learning_rate * own for own in share])
    # As it was left after its fourth epoch.
    path, flow = tmp_path / "saved.safetensors", Linear(3).double()
    stopped = m_step.CompletedEpoch._maximise
    done = []

    def stop(self, completed, source):
        done.append(1)
        if len(done) == 5:
            raise KeyboardInterrupt
        return stopped(self, completed, source)

    monkeypatch.setattr(m_step.CompletedEpoch, "_maximise", stop)
    with pytest.raises(KeyboardInterrupt):
        MonteCarloEM(schedule).fit(flow, x, random_state=0, checkpoint=path)
    again = MonteCarloEM(schedule).fit(Linear(3).double(), x, random_state=0, checkpoint=path)
    assert again.losses == whole.losses
    constant = MonteCarloEM(SHORT).fit(Linear(3).double(), x, random_state=0)
    assert constant.losses[0] == whole.losses[0]
    assert constant.losses[-1] != whole.losses[-1]
