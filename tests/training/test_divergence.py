"""Faults planted into training: it goes back to where it was good, by smaller steps, and tells."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from plmcmc import NICE, Linear, RealNVP, fit_flow
from plmcmc.chains import Checkpoint, run
from plmcmc.data import Schema
from plmcmc.flows import Logit, Preprocessed, TabularFlow
from plmcmc.posterior import methods
from plmcmc.rng import Streams, generator
from plmcmc.target import NormalAuxiliary
from plmcmc.training import EMSchedule, FaultWarning, MonteCarloEM, TrainingError
from plmcmc.training.ascent import Ascent
from plmcmc.training.divergence import Astray, Steady
from plmcmc.training.tables.copula import copula
from plmcmc.training.tables.online_em import TableEM
from plmcmc.training.tables.settings import TableTraining
from plmcmc.training.tables.validation import Hidden

ROWS, BATCH, EPOCHS = 96, 32, 5
# Gradient steps of one stretch, after which numbers are looked at.
STRETCH = {"fit_flow": 3, "mcem": 3, "table": 6}
RATE = {"fit_flow": 1e-3, "mcem": 2e-3, "table": 6e-3}


def rows(columns=3):
    return torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(0))


def fitted_flow(**options):
    flow = RealNVP(3, width=8, random_state=0)
    settings = {"epochs": EPOCHS, "batch_size": BATCH, "held_out": 0.0, "random_state": 0}
    return fit_flow(flow, rows(), **settings, **options).flow


def fitted_em(**options):
    x = rows()
    x[:40, 1] = torch.nan
    method = methods.Metropolis(auxiliary=NormalAuxiliary(1.0))
    settings = {"proposals": 5, "copies": 1, "batch_size": BATCH, "method": method}
    schedule = EMSchedule(epochs=EPOCHS, every=2, **settings)
    return MonteCarloEM(schedule).fit(NICE(3, width=8, random_state=0), x, random_state=0).flow


def fitted_table(checkpoint=None):
    x = np.where(np.arange(ROWS)[:, None] % 4 == np.arange(3), np.nan, rows().double().numpy())
    names = list("abc")
    schema = Schema.of(x, names, ["continuous"] * 3, [None] * 3)
    hidden, known = Hidden.of(schema, x, 0)
    regions = schema.regions(known)
    gaussian = copula(regions).gaussian
    flow = TabularFlow(3, members=2, couplings=2, width=8, random_state=0)
    flow.start_at(*gaussian)
    settings = TableTraining(updates=EPOCHS * STRETCH["table"], batch=16)
    em = TableEM(flow, gaussian, regions, settings, hidden=hidden, round_length=STRETCH["table"])
    state = em.start(Streams([generator(0, "start")], [ROWS * em.chains * 2]))
    saved = checkpoint and Checkpoint(checkpoint, {}, 1)
    run(em, state, Streams([generator(0, "training")], [1]), em.rounds, checkpoint=saved)
    return em.averaged


TRAININGS = {"fit_flow": fitted_flow, "mcem": fitted_em, "table": fitted_table}


def weights(flow):
    return torch.cat([own.detach().flatten().double() for own in flow.parameters()])


@contextmanager
def planted(*updates, factor=float("nan")):
    """Multiply all weights by a factor after these updates, from 1; None is every one."""
    done, rates = [], []

    def damage(optimizer, args, options):
        done.append(1)
        rates.append(float(optimizer.param_groups[0]["lr"]))
        if None in updates or len(done) in updates:
            with torch.no_grad():
                for group in optimizer.param_groups:
                    for own in group["params"]:
                        own.mul_(factor)

    handle = register_optimizer_step_post_hook(damage)
    try:
        yield rates
    finally:
        handle.remove()


def caught(name, *updates, factor=float("nan")):
    with planted(*updates, factor=factor) as rates, pytest.warns(FaultWarning) as told:
        flow = TRAININGS[name]()
    faults = [str(own.message) for own in told if own.category is FaultWarning]
    return flow, faults, rates


# By so much, all three losses leap and stay finite.
FACTORS = {"nan": float("nan"), "infinite": 1e30, "leap": 30.0}


@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("name", TRAININGS)
def test_training_goes_on_from_where_it_was_good(name, kind):
    stretch = STRETCH[name]
    flow, faults, rates = caught(name, stretch + 2, factor=FACTORS[kind])
    assert len(faults) == 1
    problem = "the loss jumped from" if kind == "leap" else "the loss is NaN or infinite in"
    assert faults[0].startswith(problem)
    where = f"updates {stretch + 1} to {2 * stretch}" if name == "table" else "epoch 2"
    assert where in faults[0]
    assert f"with a learning rate of {RATE[name] / 2:.3g}" in faults[0]
    assert bool(weights(flow).isfinite().all())
    # The stretch is run once more, by half of the steps; so are all after it.
    with planted() as usual:
        whole = TRAININGS[name]()
    assert len(rates) == len(usual) + stretch
    again = np.array(rates[2 * stretch :])
    np.testing.assert_allclose(again, 0.5 * np.array(usual)[stretch:])
    # It learned nearly what it would have learned.
    assert float((weights(flow) - weights(whole)).norm()) < 0.5 * float(weights(whole).norm())


@pytest.mark.parametrize("name", ["fit_flow", "mcem"])
def test_one_batch_with_a_nan(name, monkeypatch):
    step, seen = Ascent.__call__, []

    def damaged(self, batch):
        seen.append(1)
        return step(self, batch * torch.nan if len(seen) == 5 else batch)

    monkeypatch.setattr(Ascent, "__call__", damaged)
    with pytest.warns(FaultWarning, match="the loss is NaN or infinite in epoch 2: restored"):
        flow = TRAININGS[name]()
    assert bool(weights(flow).isfinite().all())


@pytest.mark.parametrize("name", TRAININGS)
def test_the_last_update_of_a_stretch_is_seen_by_the_weights_alone(name):
    """The loss of a step is told before the step."""
    _, faults, _ = caught(name, STRETCH[name])
    assert len(faults) == 1
    assert faults[0].startswith("weights are NaN or infinite in")


@pytest.mark.parametrize("name", TRAININGS)
def test_negative_control_without_the_way_back(name, monkeypatch):
    monkeypatch.setattr(Steady, "run", lambda self, where, work, *others: work())
    with planted(STRETCH[name] + 1), pytest.raises(Astray):
        TRAININGS[name]()


@pytest.mark.parametrize("name", TRAININGS)
def test_again_and_again_is_an_error_that_says_what_to_do(name):
    with (
        planted(None),
        pytest.warns(FaultWarning) as told,
        pytest.raises(TrainingError, match=r"5 times in a row: .*lower learning_rate"),
    ):
        TRAININGS[name]()
    rates = [float(re.findall(r"rate of (\S+)", str(own.message))[0]) for own in told]
    np.testing.assert_allclose(rates, RATE[name] * 0.5 ** np.arange(1, 5), rtol=1e-2)


@pytest.mark.parametrize("name", ["fit_flow", "table"])
def test_a_run_with_a_fault_that_is_resumed_goes_on_by_the_smaller_steps(
    name, tmp_path, monkeypatch
):
    path = tmp_path / "run.safetensors"
    with planted(2), pytest.warns(FaultWarning):
        whole = TRAININGS[name]()
    step = Steady.run

    def killed(*given):
        if path.exists():
            raise KeyboardInterrupt
        return step(*given)

    monkeypatch.setattr(Steady, "run", killed)
    with planted(2), pytest.warns(FaultWarning), pytest.raises(KeyboardInterrupt):
        TRAININGS[name](checkpoint=path)
    monkeypatch.setattr(Steady, "run", step)
    with planted() as rates:
        resumed = TRAININGS[name](checkpoint=path)
    assert torch.equal(weights(resumed), weights(whole))
    assert len(rates) < EPOCHS * STRETCH[name]


def test_moments_go_back_too(monkeypatch):
    """Else what they remember of the fault would push the weights for long."""
    seen, run = [], Steady.run

    def watched(self, where, work, *others):
        def noted():
            seen.append([own.clone() for own in (*self._moments(), *self.states)])
            return work()

        return run(self, where, noted, *others)

    monkeypatch.setattr(Steady, "run", watched)
    caught("fit_flow", 5)
    before, after = seen[1], seen[2]
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert not torch.equal(seen[0][-1], before[-1])


def test_rows_that_no_step_would_help_are_told_at_once():
    x = rows().sigmoid()
    x[5] = 2.0
    with pytest.raises(
        TrainingError, match="some rows of x have no density under the flow's preprocessing"
    ):
        fit_flow(Preprocessed([Logit()], Linear(3)), x, held_out=0.0, random_state=0)


def test_saving_does_not_change_what_is_learned_beside_frozen_weights(tmp_path):
    def fit(checkpoint):
        flow = RealNVP(3, width=8, random_state=0)
        for own in list(flow.parameters())[:2]:
            own.requires_grad_(False)
        settings = {"epochs": 4, "held_out": 0.0, "random_state": 0, "checkpoint": checkpoint}
        return fit_flow(flow, rows(), **settings).flow

    assert torch.equal(weights(fit(None)), weights(fit(tmp_path / "run")))
