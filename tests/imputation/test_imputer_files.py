"""A saved imputer fills as it did, and damage is named."""

import json

import numpy as np
import pandas as pd
import pytest

from plmcmc.flows import FileError
from plmcmc.imputation import FlowImputer
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


@pytest.mark.parametrize("field", ["flow", "columns", "effort", "seed", "statistic"])
def test_a_file_that_was_edited_is_named(saved, tmp_path, field):
    imputer, _, _ = saved
    path = imputer.save(tmp_path / "m")
    config = json.loads((path / "config.json").read_text())
    del config[field]
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(FileError, match="damaged or was edited"):
        FlowImputer.load(path)


def test_a_flow_is_no_imputer(tmp_path):
    (tmp_path / "config.json").write_text('{"format": "plmcmc-flow", "version": 1}')
    with pytest.raises(FileError, match="is not a plmcmc-imputer of version 1"):
        FlowImputer.load(tmp_path)


def test_levels_that_a_file_cannot_hold_are_refused(tmp_path):
    table = pd.DataFrame({"a": np.arange(30.0), "b": [("x", 1), ("y", 2)] * 15})
    imputer = FlowImputer(TINY, random_state=0).fit(table)
    with pytest.raises(TypeError, match="column 'b' has levels that a file cannot hold"):
        imputer.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
