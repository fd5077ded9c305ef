"""A saved imputer fills as it did, and damage is named."""

import json
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from plmcmc.flows import FileError
from plmcmc.imputation import EFFORTS, FlowImputer
from plmcmc.imputation.files import _check_walk
from rehashed import rehash
from toy_tables import TINY, mixed, with_holes


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    table, _ = with_holes(mixed())
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    return imputer, table, imputer.save(tmp_path_factory.mktemp("model") / "imputer")


def test_what_is_loaded_fills_as_what_was_saved(saved):
    imputer, table, path = saved
    loaded = FlowImputer.load(path)
    pd.testing.assert_frame_equal(loaded.transform(table), imputer.transform(table))
    assert (loaded.sample(table, 3) == imputer.sample(table, 3)).all()
    assert loaded.get_feature_names_out().tolist() == list(table.columns)
    assert loaded.rows_ == len(table)
    assert {entry.name for entry in path.iterdir()} == {"config.json", "weights.safetensors"}


def test_arrays_too(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    x[::3, 1] = np.nan
    imputer = FlowImputer(TINY, random_state=0, statistic="median").fit(x)
    loaded = FlowImputer.load(imputer.save(tmp_path / "m"))
    assert (loaded.transform(x) == imputer.transform(x)).all()


def test_nothing_is_overwritten_unasked(saved):
    imputer, _, path = saved
    with pytest.raises(FileExistsError, match="exists"):
        imputer.save(path)
    imputer.save(path, overwrite=True)


def test_as_one_file(saved, tmp_path):
    imputer, table, _ = saved
    loaded = FlowImputer.load(imputer.save(tmp_path / "m.zip"))
    pd.testing.assert_frame_equal(loaded.transform(table), imputer.transform(table))


FIELDS = ["flow", "columns", "effort", "seed", "statistic", "rows", "named", "weights"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_is_missing_is_named(saved, tmp_path, field):
    path = saved[0].save(tmp_path / "m")
    config = json.loads((path / "config.json").read_text())
    del config[field]
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(FileError, match=r"damaged or was edited: config.json, sha256"):
        FlowImputer.load(path)
    if field != "weights":
        rehash(path)
        with pytest.raises(FileError, match=rf"config\.json, {field} is missing\. Get another"):
            FlowImputer.load(path)


def change(config, *places, to):
    for place in places[:-1]:
        config = config[place]
    config[places[-1]] = to


WRONG = {
    "seed": (("seed",), -1, r"config\.json, seed: expected 0 or more; got -1"),
    "statistic": (("statistic",), "mode", r"statistic: expected one of mean, median, draw"),
    "effort": (("effort", "states"), "9", r"effort\.states: expected a whole number; got '9'"),
    "no chains": (("effort", "chains"), 0, r"effort\.chains: expected 1 or more; got 0"),
    "no states": (("effort", "states"), 0, r"effort\.states: expected 1 or more; got 0"),
    "endless": (("effort", "burn_in"), 10**30, r"effort\.burn_in: expected 1000000 or less"),
    "endless states": (
        ("effort", "states"),
        10**6,
        r"effort: expected at most 2000000 for \(members \+ mixtures\)",
    ),
    "endless chains": (("effort", "chains"), 10**6, r"states\); got \d+: use fewer"),
    "endless burn-in": (("effort", "burn_in"), 10**6, r"effort: expected .* \(members \+ mixtures"),
    "other members": (("effort", "members"), 3, r"config\.members: expected 3, as effort\.mem"),
    "training": (("effort", "training", "rows"), None, r"effort\.training\.rows: expected a"),
    "kind": (("columns", 0, "kind"), "os.system", r"columns\[0\]\.kind: expected one of"),
    "levels": (("columns", 4, "levels"), [], r"columns\[4\]\.levels: expected distinct"),
    "fewer levels": (("columns", 4, "levels"), ["a", "b"], r"column\.4\.order: expected"),
    "levels of numbers": (("columns", 0, "levels"), ["a"], r"a column of numbers has none"),
    "same name": (("columns", 0, "name"), "count", "two have the same name"),
    "no columns": (("columns",), [], "expected at least one"),
    "another flow": (("flow", "name"), "nice", r"flow\.name: expected one of tabular"),
    "wider": (("flow", "config", "width"), 10**9, r"flow of \d+ numbers, and weights"),
    "more members": (("flow", "config", "members"), 10**9, r"flow of \d+ numbers, and weights"),
    "more features": (("flow", "config", "features"), 99, "features: expected 7"),
    "unknown field": (("flow", "module"), "os", "unknown field 'module'"),
}


@pytest.mark.parametrize(("places", "value", "message"), WRONG.values(), ids=WRONG)
def test_a_field_that_is_wrong_is_named(saved, tmp_path, places, value, message):
    path = saved[0].save(tmp_path / "m")
    config = json.loads((path / "config.json").read_text())
    change(config, *places, to=value)
    (path / "config.json").write_text(json.dumps(config))
    rehash(path)
    with pytest.raises(FileError, match=message):
        FlowImputer.load(path)


TENSORS = {
    "gaussian.mean": (lambda t: t[:-1], r"gaussian\.mean: expected torch.float64 of \(7,\)"),
    "gaussian.covariance": (lambda t: t * np.nan, "gaussian: expected finite"),
    "others.mean": (lambda t: t.float(), r"others\.mean: expected torch.float64"),
    "column.0.atoms": (lambda t: t.flip(0), r"column\.0: expected values in order"),
    "column.3.atoms": (lambda t: t + 7, r"column\.3\.atoms: expected codes of 3 levels"),
    "column.4.order": (lambda t: t * 0, r"column\.4\.order is not a permutation of 3 columns"),
    "flow.order": (lambda t: t + 2**40, "order is not a permutation of 7 columns"),
    "flow.lower": (lambda t: t.double(), r"flow\.lower: expected torch.float32"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_that_is_wrong_is_named(saved, tmp_path, name):
    path = saved[0].save(tmp_path / "m")
    spoil, message = TENSORS[name]
    tensors = load_file(path / "weights.safetensors")
    tensors[name] = spoil(tensors[name]).contiguous()
    save_file(tensors, path / "weights.safetensors")
    rehash(path)
    with pytest.raises(FileError, match=message):
        FlowImputer.load(path)


NUMBERS = [
    ("flow.networks.0.weights.0", lambda t: t * np.nan, r"weights\.0: expected finite numbers"),
    ("flow.networks.0.weights.1", lambda t: t + 1e30, "numbers are too large to compute with"),
    ("flow.log_diagonal", lambda t: t + 255, "numbers are too large to compute with"),
    ("gaussian.mean", lambda t: t + 1e30, "gaussian: expected moments of normal scores"),
    ("gaussian.covariance", lambda t: -t, r"gaussian\.covariance: .* positive definite"),
    # What factors a matrix looks at its lower half alone, and would take this one.
    ("gaussian.covariance", lambda t: t + t.triu(1), r"gaussian\.covariance: .* symmetric"),
    ("others.covariance", lambda t: t * 0, r"others\.covariance: .* positive definite"),
    ("column.4.thresholds", lambda t: t * np.nan, r"column\.4: expected finite thresholds"),
    ("column.0.low", lambda t: t * np.nan, r"column\.0: expected values in order"),
    ("column.0.low", lambda t: t - np.inf, r"column\.0: expected values in order"),
    ("column.1.high", lambda t: t + np.inf, r"column\.1: expected values in order"),
]


@pytest.mark.parametrize(("name", "spoil", "message"), NUMBERS)
def test_numbers_that_nothing_could_be_drawn_with_are_named(saved, tmp_path, name, spoil, message):
    """They would load, and fail much later, or give nonsense."""
    path = saved[0].save(tmp_path / "m")
    tensors = load_file(path / "weights.safetensors")
    tensors[name] = spoil(tensors[name]).contiguous()
    save_file(tensors, path / "weights.safetensors")
    rehash(path)
    with pytest.raises(FileError, match=message):
        FlowImputer.load(path)


@pytest.mark.parametrize("name", [*TENSORS, "more"])
def test_a_tensor_too_few_or_too_many_is_named(saved, tmp_path, name):
    path = saved[0].save(tmp_path / "m")
    tensors = load_file(path / "weights.safetensors")
    if tensors.pop(name, None) is None:
        tensors[name] = torch.zeros(2)
    save_file(tensors, path / "weights.safetensors")
    rehash(path)
    with pytest.raises(FileError, match=f"{name}|flow of .* numbers"):
        FlowImputer.load(path)


def test_a_flow_is_no_imputer(tmp_path):
    (tmp_path / "config.json").write_text('{"format": "plmcmc-flow", "version": 1}')
    with pytest.raises(FileError, match=r"is not a plmcmc-imputer: .*says format 'plmcmc-flow'"):
        FlowImputer.load(tmp_path)


def test_every_effort_that_has_a_name_loads_with_room():
    for effort in EFFORTS.values():
        _check_walk(replace(effort, states=100 * effort.states), "effort")


def test_an_effort_that_would_not_load_is_not_saved(saved, tmp_path):
    imputer = copy(saved[0])
    imputer.effort_ = replace(imputer.effort_, states=10**6)
    with pytest.raises(
        ValueError, match=r"effort: expected at most .* for \(members \+ .*: use fewer states"
    ):
        imputer.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_levels_that_a_file_cannot_hold_are_refused(tmp_path):
    table = pd.DataFrame({"a": np.arange(30.0), "b": [("x", 1), ("y", 2)] * 15})
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    with pytest.raises(TypeError, match="column 'b' has levels that cannot be stored in a file"):
        imputer.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
