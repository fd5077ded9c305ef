"""What is kept of an experiment survives, is not mixed with other settings, and is not redone."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from plmcmc.data import DataError
from plmcmc.disk import WriteError
from plmcmc.experiments import experiment_of
from plmcmc.experiments.cache import read_arrays
from plmcmc.experiments.ledger import LINES, Ledger, LedgerError, as_json
from plmcmc.experiments.study import Found, Place

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
    with pytest.raises(LedgerError, match=r"rate: 0.5 then, 0.25 now\): choose a different output"):
        kept(tmp_path, SETTINGS | {"rate": 0.25})


def test_a_part_of_other_settings_is_not_done(tmp_path):
    def ledger(**own):
        return Ledger(tmp_path, SETTINGS, lambda part: own if part == "second" else {})

    first = ledger(epochs=(1, 2))
    first.add("first", Found({"NMSE": 0.5}))
    first.add("second", Found({"NMSE": 0.25}))
    assert list(ledger(epochs=(1, 2))) == ["first", "second"]
    other = ledger(epochs=(1, 3))
    assert list(other) == ["first"]
    other.add("second", Found({"NMSE": 0.125}))
    # The last line counts: its arrays are those that are there.
    assert ledger(epochs=(1, 3))["second"].numbers == {"NMSE": 0.125}
    assert list(ledger(epochs=(1, 2))) == ["first"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: not valid JSON"),
        ('{"part": "x"}', "line 2: expected"),
        ('{"part": "x", "numbers": 3}', "line 2: expected"),
        ('{"part": ["x"], "numbers": {}}', "line 2: expected"),
        ('{"part": "x", "numbers": {}, "arrays": 1}', "line 2: expected"),
        ('{"source": "x", "hash": "1"}', "line 2: expected"),
        ("[1]", "line 2: expected"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, words):
    kept(tmp_path)
    path = tmp_path / LINES
    path.write_text(f"{path.read_text()}{line}\n" + json.dumps({"part": "x", "numbers": {}}) + "\n")
    with pytest.raises(LedgerError, match=words + r".*: remove this line; its part is then run"):
        kept(tmp_path)


@pytest.mark.parametrize("line", ["{", '{"part": "x", "numbers": {}}', '{"settings": [1]}'])
def test_without_settings_nobody_knows_what_numbers_are_of(tmp_path, line):
    (tmp_path / LINES).write_text(f"{line}\n")
    with pytest.raises(LedgerError, match=r"line 1: .*: without it, the origin .*: remove"):
        kept(tmp_path)


def spoilt(path, how):
    """Spoil a file of arrays."""
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "cut off":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "junk":
        path.write_bytes(b"junk" * 100)
    elif how == "one array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        np.savez(path, curve=np.array([None, {}]))


@pytest.mark.parametrize("how", ["gone", "cut off", "empty", "junk", "one array", "objects"])
def test_a_part_whose_arrays_are_lost_or_damaged_is_not_done(tmp_path, how):
    for part in ("first", "second"):
        kept(tmp_path).add(part, Found({"NMSE": 0.5}, {"curve": np.linspace(0, 1, 500)}))
    path = kept(tmp_path)._arrays("first")
    spoilt(path, how)
    again = kept(tmp_path)
    assert (list(again), again.lost) == (["second"], ["first"])
    if how != "gone":
        with pytest.raises(DataError, match=f"{path.name} is damaged: expected arrays") as problem:
            read_arrays(path)
        assert "allow_pickle" not in str(problem.value)
    again.add("first", Found({"NMSE": 0.5}, {"curve": np.zeros(2)}))
    assert (list(kept(tmp_path)), kept(tmp_path).lost) == (["first", "second"], [])


def test_arrays_of_another_run_are_not_taken_for_a_part_s_own(tmp_path):
    ledger = kept(tmp_path)
    ledger.add("first", Found({"NMSE": 0.5}, {"curve": np.zeros(3)}))
    np.savez(ledger._arrays("first"), curve=np.ones(3))
    assert kept(tmp_path).lost == ["first"]


def test_lines_of_earlier_versions_are_read_and_others_only_say_more(tmp_path):
    old = '{"part": "first", "numbers": {"NMSE": 0.5}}'
    (tmp_path / LINES).write_text(f"{json.dumps({'settings': as_json(SETTINGS)})}\n{old}\n")
    ledger = Ledger(tmp_path, SETTINGS, made=lambda: {"torch": "2"})
    ledger.add("second", Found({"NMSE": 0.25}))
    assert ledger.made == kept(tmp_path).made == {"first": {}, "second": {"torch": "2"}}
    last = (tmp_path / LINES).read_text().splitlines()[-1]
    assert last == '{"part": "second", "numbers": {"NMSE": 0.25}, "made": {"torch": "2"}}'


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_published_lines_are_read(name, tmp_path):
    lines = Path(__file__).parents[2] / "docs" / "results" / f"{name}.jsonl"
    (tmp_path / LINES).write_bytes(lines.read_bytes())
    experiment = experiment_of(name, "full")
    ledger = Ledger(tmp_path, experiment.settings(), experiment.settings_of)
    assert len(ledger) > 5
    assert not ledger.lost


def test_a_source_that_changed_is_refused_once_there_are_numbers_of_it(tmp_path):
    source, place = tmp_path / "x.csv", tmp_path / "out"
    source.write_text("1")
    kept(place).check_source(source, "own")
    # Nothing was made of it yet.
    source.write_text("2")
    ledger = kept(place)
    ledger.check_source(source, "own")
    ledger.add("first", Found({"NMSE": 0.5}))
    kept(place).check_source(source, "own")
    assert list(kept(place)) == ["first"]
    source.write_text("3")
    with pytest.raises(LedgerError, match=r"x.csv differs from the data .* made from \(data: "):
        kept(place).check_source(source, "own")


def test_sources_of_one_name_in_two_folders(tmp_path):
    first, second = tmp_path / "a" / "x.csv", tmp_path / "b" / "x.csv"
    for source in (first, second):
        source.parent.mkdir()
        source.write_text(str(source))
    ledger = kept(tmp_path)
    place = Place(tmp_path / "out", tmp_path / "shared", tmp_path, note=ledger.check_source)
    assert (place.find("a/x.csv"), place.find("b/x.csv")) == (first, second)
    ledger.add("first", Found({"NMSE": 0.5}))
    again = Place(tmp_path / "out", tmp_path / "shared", tmp_path, note=kept(tmp_path).check_source)
    assert (again.find("a/x.csv"), again.find("b/x.csv")) == (first, second)
    second.write_text("other")
    with pytest.raises(
        LedgerError, match="differs from the data that the finished parts were made from"
    ):
        Place(tmp_path, tmp_path, tmp_path, note=kept(tmp_path).check_source).find("b/x.csv")


def test_what_was_made_of_one_source_is_not_gone_on_with_by_another(tmp_path):
    source, place = tmp_path / "x.csv", tmp_path / "out"

    def ledger(epochs):
        return Ledger(place, SETTINGS, lambda part: {"epochs": epochs})

    for epochs, content in ((1, "one"), (2, "two")):
        source.write_text(content)
        own = ledger(epochs)
        own.check_source(source, "own")
        own.add(f"part {epochs}", Found({"NMSE": 0.5}))
    assert list(ledger(1)) == ["part 1"]
    with pytest.raises(
        LedgerError, match="differs from the data that the finished parts were made from"
    ):
        ledger(1).check_source(source, "own")
    ledger(2).check_source(source, "own")


def made_of(content, place, part, arrays=None):
    """Keep a part in a ledger, made of a source of its own."""
    place.mkdir(exist_ok=True)
    source = place / "x.csv"
    source.write_text(content)
    ledger = kept(place)
    ledger.check_source(source, "own")
    ledger.add(part, Found({"NMSE": len(part)}, arrays or {}))


def test_parts_of_another_directory_are_taken_over(tmp_path):
    curve = np.linspace(0, 1, 50)
    made_of("one", tmp_path / "a", "first")
    made_of("one", tmp_path / "b", "first")
    made_of("one", tmp_path / "b", "second", {"curve": curve})
    ledger = kept(tmp_path / "a")
    ledger.take(tmp_path / "b")
    for own in (ledger, kept(tmp_path / "a")):
        assert list(own) == ["first", "second"]
        np.testing.assert_array_equal(own["second"].arrays["curve"], curve)
    assert len((tmp_path / "a" / LINES).read_text().splitlines()) == 3


def test_parts_of_other_data_are_not_taken_over(tmp_path):
    made_of("one", tmp_path / "a", "first")
    made_of("two", tmp_path / "b", "second")
    with pytest.raises(
        LedgerError, match="second was made from a different own than other parts there"
    ):
        kept(tmp_path / "a").take(tmp_path / "b")
    assert list(kept(tmp_path / "a")) == ["first"]


def test_a_directory_is_all_that_is_in_it(tmp_path):
    source, place = tmp_path / "flow", tmp_path / "out"
    source.mkdir()
    (source / "weights").write_text("1")
    ledger = kept(place)
    ledger.check_source(source, "own")
    ledger.add("first", Found({"NMSE": 0.5}))
    (source / "weights").write_text("2")
    with pytest.raises(LedgerError, match="flow differs from the data"):
        kept(place).check_source(source, "own")


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path, monkeypatch):
    ledger = kept(tmp_path)
    before = (tmp_path / LINES).read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(WriteError, match=r"numbers.jsonl could not be written \(No space left"):
            ledger.add("first", Found({"NMSE": 0.5}))
    assert (tmp_path / LINES).read_bytes() == before
    ledger.add("first", Found({"NMSE": 0.5}))
    assert list(kept(tmp_path)) == ["first"]


def test_numbers_that_are_none_are_refused(tmp_path):
    ledger = kept(tmp_path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        ledger.add("first", Found({"NMSE": float("nan")}))
    assert list(kept(tmp_path)) == []
