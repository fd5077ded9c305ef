"""Mixtures that join the flows: where they help, whether they are told of, and saved with them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from plmcmc import FlowImputer
from plmcmc.cli import main
from plmcmc.flows import FileError, GaussianMixture
from plmcmc.imputation import learning, sampling
from plmcmc.imputation.density_checks import check_mixture
from plmcmc.statistics import nmse
from plmcmc.storage.stored import CONFIG, WEIGHTS
from rehashed import rehash
from toy_tables import TINY

ROWS = 400
# Chains that are long enough to tell of R-hat.
EFFORT = replace(TINY, mixtures=4, burn_in=6, states=24)


def bent(rows=ROWS, seed=0):
    """Return points about a curve, which no Gaussian knows much of, a third of it holes."""
    rng = np.random.default_rng(seed)
    way = rng.uniform(-2, 2, rows)
    x = np.stack([way, way**2, np.sin(2 * way)], 1)
    x += 0.1 * rng.standard_normal(x.shape)
    holes = rng.random(x.shape) < 0.33
    holes[holes.all(1), 0] = False
    return x, holes


def holed(rows=ROWS):
    x, holes = bent(rows)
    return np.where(holes, np.nan, x)


@pytest.fixture(scope="module")
def fitted():
    return FlowImputer(EFFORT, random_state=0).fit(holed())


def test_where_a_gaussian_is_wrong_they_join_and_help(fitted):
    x, holes = bent()
    assert fitted.model_.mixture.members == 4
    assert fitted.model_.members == 2 + 4
    alone = FlowImputer(replace(EFFORT, mixtures=0), random_state=0).fit(holed())
    assert alone.model_.mixture is None
    ours, flow = (nmse(x, own.transform(holed()), holes) for own in (fitted, alone))
    assert ours < 0.8 * flow
    # R-hat is of each member, mixtures' too, whose draws are independent.
    rhat = fitted.convergence_.rhat
    assert rhat.shape[0] == 6
    found = rhat[2:][np.isfinite(rhat[2:])]
    assert (found < 1.2).mean() > 0.95


def test_those_that_join_learn_from_all_that_is_seen(monkeypatch):
    """Some values are hidden while it is tried whether they help, and no longer."""
    asked, fit = [], learning.fit_mixtures

    def watched(copula, members, *rest):
        asked.append((copula, members))
        return fit(copula, members, *rest)

    monkeypatch.setattr(learning, "fit_mixtures", watched)
    model = FlowImputer(EFFORT, random_state=0).fit(holed()).model_
    (tried, _), (joined, members) = asked
    assert members == model.mixture.members == 4
    seen = np.isfinite(holed())
    np.testing.assert_array_equal(joined.observed, seen)
    assert not (tried.observed.numpy() & ~seen).any()
    assert seen.sum() - int(tried.observed.sum()) >= learning.LEAST_HIDDEN


def test_where_a_gaussian_is_right_they_stay_away():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, 3)) @ rng.standard_normal((3, 3))
    x[rng.random(x.shape) < 0.33] = np.nan
    assert FlowImputer(EFFORT, random_state=0).fit(x).model_.mixture is None


def test_a_column_that_follows_from_another_keeps_them_away():
    rng = np.random.default_rng(0)
    x, _ = bent()
    x = np.concatenate([x, 1.8 * x[:, :1] + 32], 1)
    x[rng.random(x.shape) < 0.33] = np.nan
    assert FlowImputer(EFFORT, random_state=0).fit(x).model_.mixture is None


def test_few_rows_or_hidden_values_have_none(monkeypatch):
    monkeypatch.setattr(learning, "LEAST_HIDDEN", 0)
    assert FlowImputer(EFFORT, random_state=0).fit(holed(60)).model_.mixture is None
    monkeypatch.setattr(learning, "LEAST_HIDDEN", 10**6)
    assert FlowImputer(EFFORT, random_state=0).fit(holed()).model_.mixture is None


def test_what_is_seen_stays_and_chunks_do_not_matter(fitted, monkeypatch):
    table = holed()
    seen = np.isfinite(table)
    found = []
    for rows in (256, 64):
        monkeypatch.setattr(sampling, "CPU_ROWS", rows)
        found.append(np.stack([fitted.transform(table), *fitted.sample(table, 3)]))
        found.append(np.stack(fitted.complete(table, 3)))
    for filled in found:
        assert (filled[:, seen] == table[seen]).all()
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])


def test_few_completed_tables_are_of_members_of_all_kinds(fitted, monkeypatch):
    """The last two of six members are the second and the fourth mixture: of three, one is."""
    asked = []
    right = sampling.Walk.run

    def watched(self, table, watch, report):
        def numbered(shown):
            shown.tables[:] = np.arange(self.places)[:, None]
            asked.append(self.places)
            watch(shown)

        return right(self, table, numbered, report)

    monkeypatch.setattr(sampling.Walk, "run", watched)
    hole = tuple(np.argwhere(np.isnan(holed()))[0])
    places = [table[hole] for table in fitted.complete(holed(), 3)]
    assert set(asked) == {6}
    assert places == [0, 2, 4]


def test_files_hold_them(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "m")
    again = FlowImputer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.transform(holed()), fitted.transform(holed()))
    np.testing.assert_array_equal(again.log_prob(holed()[:8]), fitted.log_prob(holed()[:8]))
    assert main(["info", str(tmp_path / "m")]) == 0
    assert "members: 2 flows, 4 mixtures of 16 Gaussians" in capsys.readouterr().out


# Diagonals that may be, and slopes that no factor of scores has.
STEEP = torch.full((3, 3), 9e5).tril(-1) + 2e-3 * torch.eye(3)


def without(config):
    config["mixture"] = None


def smaller(config):
    config["mixture"]["config"]["components"] = 8


def others(config):
    config["effort"]["mixtures"] = 3


SPOILT = {
    "not told of": (without, "unexpected tensor 'mixture.*"),
    "of another size": (smaller, "describes a flow of"),
    "of other members": (others, r"config\.members: expected 3, as effort\.mixtures is"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt_files_are_refused(fitted, tmp_path, case):
    spoil, words = SPOILT[case]
    fitted.save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / CONFIG).read_text())
    spoil(config)
    (tmp_path / "m" / CONFIG).write_text(json.dumps(config))
    rehash(tmp_path / "m")
    with pytest.raises(FileError, match=words):
        FlowImputer.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "value"),
    [("inward", 0.0), ("mean", 1e9), ("log_weight", -1e9), ("inward", 1e9), ("inward", STEEP)],
    ids=["no width", "far", "no weight", "narrow", "steep"],
)
def test_mixtures_that_no_scores_have_are_refused(fitted, tmp_path, name, value):
    fitted.save(tmp_path / "m")
    tensors = load_file(tmp_path / "m" / WEIGHTS)
    tensors[f"mixture.{name}"][0, 0] = value
    save_file(tensors, tmp_path / "m" / WEIGHTS)
    rehash(tmp_path / "m")
    with pytest.raises(FileError, match="mixture: expected mixtures of normal scores"):
        FlowImputer.load(tmp_path / "m")


def test_too_many_components_are_refused():
    check_mixture(GaussianMixture(2, members=16, components=40))
    with pytest.raises(
        ValueError, match="expected at most 4096 components over all members; got 8000"
    ):
        check_mixture(GaussianMixture(2, members=8, components=1000))
