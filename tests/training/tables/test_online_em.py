"""Online EM for tables: it learns what a Gaussian cannot, and resumes to the same bits."""

import numpy as np
import pytest
import torch

from flow_cases import shaken
from plmcmc.chains import Checkpoint, run
from plmcmc.data import Schema
from plmcmc.flows import TabularFlow, log_prob
from plmcmc.imputation import Effort
from plmcmc.imputation.learning import fit_table
from plmcmc.imputation.sampling import Walk
from plmcmc.rng import Streams, generator
from plmcmc.statistics import coverage, nmse
from plmcmc.training.tables.copula import copula
from plmcmc.training.tables.online_em import ACCEPTANCE, ALONE, GAIN, TableEM, _half_and_half
from plmcmc.training.tables.settings import TableTraining
from plmcmc.training.tables.validation import WINDOW, Hidden

ROUND = 5


def bent(rows=600, seed=0):
    """Return a parabola with noise, and a third column that says on which arm."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return np.stack([x, x**2 + 0.2 * rng.normal(size=rows), x + 0.5 * rng.normal(size=rows)], 1)


def hidden(table, seed=1, share=0.3):
    holes = np.random.default_rng(seed).random(table.shape) < share
    return np.where(holes, np.nan, table), holes


def schema(table):
    names = [str(place) for place in range(table.shape[1])]
    return Schema.of(table, names, ["continuous"] * len(names), [None] * len(names))


def training(updates, seed=0, team=ALONE, validated=False):
    table, _ = hidden(bent(100))
    kept = None
    if validated:
        kept, table = Hidden.of(schema(table), table, seed)
    regions = schema(table).regions(table)
    gaussian = copula(regions).gaussian
    flow = TabularFlow(3, members=2, couplings=2, width=8, random_state=seed)
    flow.start_at(gaussian.mean, gaussian.covariance)
    settings = TableTraining(updates=updates, batch=32)
    options = {"hidden": kept, "round_length": ROUND, "team": team}
    return TableEM(flow, gaussian, regions, settings, **options)


def started(em):
    return em.start(Streams([generator(0, "start")], [100 * em.chains * 2]))


def test_a_run_that_was_killed_resumes_to_the_same_bits(tmp_path):
    identity = {"test": "resume"}
    weights = []
    for stops in ([4], [2, 4]):
        path = tmp_path / f"{len(stops)}.safetensors"
        for rounds in stops:
            em = training(4 * ROUND)
            run(
                em,
                started(em),
                Streams([generator(0, "training")], [1]),
                rounds,
                checkpoint=Checkpoint(path, identity, 1),
            )
        weights.append(em.averaged.state_dict())
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name


def test_it_starts_at_the_gaussian_and_moves_away():
    em = training(ROUND)
    table, _ = hidden(bent(100))
    gaussian = copula(schema(table).regions(table)).gaussian
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    expected = torch.distributions.MultivariateNormal(gaussian.mean, gaussian.covariance)
    with torch.no_grad():
        found = log_prob(em.flow, x.repeat_interleave(2, 0)).reshape(40, 2)
    # Couplings start at nothing, and the triangular layer where the Gaussian is.
    error = (found - expected.log_prob(x.double())[:, None]).abs().max()
    assert float(error) < 1e-4
    before = em.averaged.networks[0].weights[-1].clone()
    em.step(started(em), Streams([generator(0, "training")], [1]))
    assert not torch.equal(before, em.averaged.networks[0].weights[-1])


def test_steps_follow_what_is_accepted():
    em = training(ROUND)
    short = started(em)._replace(log_step=torch.tensor(-3.0, dtype=torch.float64))
    state, info = em.step(short, Streams([generator(0, "training")], [1]))
    # So short that nearly all are: they grow.
    assert info.acceptance > 0.95
    grown = ROUND * GAIN * (info.acceptance - ACCEPTANCE)
    assert float(state.log_step) == pytest.approx(-3.0 + grown)


def test_the_weights_that_scored_best_are_kept(monkeypatch):
    em = training(3 * ROUND, validated=True)
    # Means of all so far, and the first before training: .4, then .3, .25 and .33.
    found = iter([0.4] * WINDOW + [0.3, 0.2, 0.5])

    def scored(self, state, source):
        return torch.full((len(em.hidden.rows),), next(found), dtype=torch.float64)

    monkeypatch.setattr(TableEM, "_scored", scored)
    state = started(em)
    for validation in (1, 2, 3):
        with torch.no_grad():
            em.averaged.mean.fill_(validation)
        em._validate(state._replace(update=torch.tensor(validation * ROUND)), None)
    assert (em.best.mean == 2).all()


@pytest.mark.parametrize(("errors", "means"), [(2.0, [3, 3]), (0.75, [3, 1]), (0.25, [1, 1])])
def test_the_first_flow_is_kept_in_part_where_training_may_not_have_helped(errors, means):
    em = training(ROUND, validated=True)
    values = len(em.hidden.rows)
    chance = np.random.default_rng(0).normal(size=values)
    chance = (chance - chance.mean()) / chance.std()
    # Training gained so many standard errors.
    scores = torch.as_tensor(np.stack([errors / values**0.5 + chance, np.zeros(values)]))
    with torch.no_grad():
        em.first.mean.fill_(1)
        em.best.mean.fill_(3)
    chosen = em.chosen(started(em)._replace(scores=scores))
    assert chosen.mean[:, 0, 0].tolist() == means


def filled(table, effort, seed=0):
    """Return the mean, and the ends of 90% intervals, of each entry."""
    model = fit_table(schema(table), table, effort, seed)
    places, states = effort.chains * effort.members, effort.states
    drawn = np.empty((states, len(table), places, table.shape[1]))

    def watch(shown):
        drawn[shown.state, shown.rows] = shown.tables

    Walk(model, places, effort.burn_in, states, seed=seed).run(table, watch)
    return drawn.mean((0, 2)), *np.quantile(drawn, [0.05, 0.95], axis=(0, 2))


def test_it_learns_a_bend_that_a_gaussian_cannot_and_knows_how_sure_it_is():
    truth = bent()
    table, holes = hidden(truth)
    work = TableTraining(updates=400)
    size = {"members": 2, "mixtures": 0, "couplings": 4, "width": 32}
    effort = Effort(**size, training=work, burn_in=10, states=40)
    mean, low, high = filled(table, effort)
    once = TableTraining(updates=1)
    size = {"members": 1, "mixtures": 0, "couplings": 2, "width": 2}
    still = Effort(**size, training=once, burn_in=10, states=40)
    gaussian, _, _ = filled(table, still)
    ours, theirs = (nmse(truth, np.where(holes, m, truth), holes) for m in (mean, gaussian))
    assert ours < 0.75 * theirs
    # Of 540 hidden entries: three standard errors of .9 are .04, and the flow is not the truth.
    inside = coverage(truth[holes], low[holes], high[holes])
    assert 0.82 < inside < 0.96


def test_one_member_has_draws_enough_to_score_by():
    table, _ = hidden(bent(300))
    few = TableTraining(updates=2, chains=1)
    fit_table(schema(table), table, Effort(members=1, mixtures=0, width=4, training=few), 0)


def test_of_two_flows_members_are_taken_by_turns():
    one, other = (
        shaken(TabularFlow(3, members=4, couplings=2, width=8, random_state=0), size)
        for size in (0.1, 0.5)
    )
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).repeat_interleave(4, 0)
    mixed, first, second = (
        log_prob(flow, x).detach().reshape(5, 4)
        for flow in (_half_and_half(one, other), one, other)
    )
    assert torch.equal(mixed[:, ::2], first[:, ::2])
    assert torch.equal(mixed[:, 1::2], second[:, 1::2])
    assert not torch.equal(first, second)
