"""What is kept of an experiment survives, is not mixed with other settings, and is not redone."""

import json

import numpy as np
import pytest

from plmcmc.experiments.ledger import LINES, Ledger, LedgerError
from plmcmc.experiments.study import Found

SETTINGS = {"rate": 0.5, "sets": ("one", "two")}


def kept(directory, settings=SETTINGS):
    return Ledger(directory, settings)


def test_what_was_added_is_there_again(tmp_path):
    arrays = {"curve": np.linspace(0, 1, 5), "seen": np.array([True, False])}
    kept(tmp_path).add("one, mask 0", Found({"NMSE": 0.5, "rates": [1, 2]}, arrays))
    kept(tmp_path).add("strange / name: *?", Found({"NMSE": 0.25}))
    found = kept(tmp_path)
    assert list(found) == ["one, mask 0", "strange / name: *?"]
    assert found["one, mask 0"].numbers == {"NMSE": 0.5, "rates": [1, 2]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found["one, mask 0"].arrays[name], array)
    assert found["strange / name: *?"].arrays == {}


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    ledger = kept(tmp_path)
    ledger.add("first", Found({"NMSE": 0.5}))
    ledger.add("second", Found({"NMSE": 0.25}))
    path = tmp_path / LINES
    path.write_bytes(path.read_bytes()[:-7])
    again = kept(tmp_path)
    assert list(again) == ["first"]
    again.add("second", Found({"NMSE": 0.25}))
    assert list(kept(tmp_path)) == ["first", "second"]


def test_a_first_line_that_was_cut_off_is_written_again(tmp_path):
    kept(tmp_path)
    path = tmp_path / LINES
    path.write_bytes(path.read_bytes()[:-7])
    kept(tmp_path).add("first", Found({"NMSE": 0.5}))
    assert list(kept(tmp_path)) == ["first"]


def test_numbers_of_other_settings_are_not_mixed_in(tmp_path):
    kept(tmp_path).add("first", Found({"NMSE": 0.5}))
    with pytest.raises(LedgerError, match=r"rate: 0.5 there, 0.25 now\): choose another output"):
        kept(tmp_path, SETTINGS | {"rate": 0.25})


@pytest.mark.parametrize(
    ("line", "words"), [("{", "line 2: no JSON"), ('{"part": "x"}', "line 2: expected")]
)
def test_a_damaged_line_is_named(tmp_path, line, words):
    kept(tmp_path)
    path = tmp_path / LINES
    path.write_text(f"{path.read_text()}{line}\n" + json.dumps({"part": "x", "numbers": {}}) + "\n")
    with pytest.raises(LedgerError, match=words):
        kept(tmp_path)


def test_numbers_that_are_none_are_refused(tmp_path):
    ledger = kept(tmp_path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        ledger.add("first", Found({"NMSE": float("nan")}))
    assert list(kept(tmp_path)) == []
