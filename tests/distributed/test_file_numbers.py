"""A job goes on without some of its files, and those that are left keep their numbers."""

import json
import os

import pandas as pd
import pytest

from part_by_part import contents, filled, interrupted_after, touched_at_work
from plmcmc.distributed import filling, impute
from plmcmc.distributed.file_numbers import numbered

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.fixture
def own(data, tmp_path):
    """Files that a test may spoil."""
    places = [tmp_path / path.name for path in data]
    for path, place in zip(data, places, strict=True):
        place.write_bytes(path.read_bytes())
    return places


def stopped(parts, data, model, out, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_after(parts, patch)
        with pytest.raises(KeyboardInterrupt):
            filled(data, model, out)


def without(place, written):
    return {name: content for name, content in written.items() if name != place.name}


def told_by(data, model, out, **options):
    told = []
    impute(data, model, out, progress=False, tell=told.append, **options)
    return told


def test_a_file_that_is_damaged_for_good_is_left_out(own, model, undisturbed, tmp_path):
    out = tmp_path / "out"
    own[1].write_bytes(b"PAR1 and no more")
    assert list(filled(own, model, out).problems) == [own[1]]
    assert (out / "plmcmc.part").exists()
    told = told_by([own[0], own[2]], model, out)
    assert told[1:] == ["Not named this time, and left out: '1.parquet'."]
    assert contents(out) == without(own[1], undisturbed)


def test_an_old_output_in_the_place_of_a_damaged_file(own, model, tmp_path):
    out = tmp_path / "out"
    filled(own, model, out)
    own[1].write_bytes(b"PAR1 and no more")
    old = f"{out / '1.parquet'} is from an earlier run; this job did not write it"
    assert told_by(own, model, out, seed=5, overwrite=True) == [old]
    assert told_by([own[0], own[2]], model, out, seed=5)[1:] == [
        "Not named this time, and left out: '1.parquet'.",
        old,
    ]


def test_an_output_of_the_job_is_not_old(own, data, model, tmp_path):
    out = tmp_path / "out"
    own[1].write_bytes(b"PAR1 and no more")
    filled(own, model, out, draws=2)
    own[0].write_bytes(b"PAR1 and no more")
    own[1].write_bytes(data[1].read_bytes())
    # One that is written cannot be read any more, another is left out.
    assert len(told_by(own[:2], model, out, draws=2)) == 2
    assert len(os.listdir(out)) == 7


def test_files_that_are_left_keep_their_numbers(own, model, undisturbed, tmp_path, monkeypatch):
    stopped(3, own, model, tmp_path / "out", monkeypatch)
    left = [own[0], own[2]]
    filled(left, model, tmp_path / "out")
    assert contents(tmp_path / "out") == without(own[1], undisturbed)
    # By themselves they have others: the file's number tells.
    filled(left, model, tmp_path / "anew")
    anew = contents(tmp_path / "anew")
    assert anew[own[0].name] == undisturbed[own[0].name]
    assert anew[own[2].name] != undisturbed[own[2].name]


def test_one_file_may_be_left(own, model, undisturbed, tmp_path):
    for path in own[:2]:
        path.write_bytes(b"PAR1 and no more")
    assert len(filled(own, model, tmp_path / "out.v1").problems) == 2
    filled(own[2:], model, tmp_path / "out.v1")
    assert contents(tmp_path / "out.v1") == {own[2].name: undisturbed[own[2].name]}


def test_a_file_that_a_worker_has_refused_is_left_out(own, model, undisturbed, tmp_path):
    frame = pd.read_parquet(own[0])
    frame.loc[frame.index[140], "colour"] = "mauve"
    frame.to_parquet(own[0])
    assert list(filled(own, model, tmp_path / "out").problems) == [own[0]]
    filled(own[1:], model, tmp_path / "out")
    assert contents(tmp_path / "out") == without(own[0], undisturbed)


def test_parts_that_are_done_are_not_lost(own, model, undisturbed, tmp_path, monkeypatch):
    out = tmp_path / "out"
    stopped(2, own, model, out, monkeypatch)
    told = told_by(own[1:], model, out)
    assert (
        "still holds finished parts of files not named this time: '0.parquet'. Name them again"
        in told[-1]
    )
    assert sorted(os.listdir(out)) == ["1.parquet", "2.parquet", "plmcmc.part"]
    seen, work = [], filling.Worker.work
    monkeypatch.setattr(
        filling.Worker, "work", lambda self, task: seen.append(task.parts) or work(self, task)
    )
    filled(own, model, out)
    assert [part[0] for parts in seen for part in parts] == [2]
    assert contents(out) == undisturbed


def test_parts_of_a_file_that_is_refused_no_more_are_not_lost(
    own, model, undisturbed, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        touched_at_work(own[0], patch)
        assert list(filled(own, model, out).problems) == [own[0]]
    stopped(0, own, model, out, monkeypatch)
    told = told_by(own[1:], model, out)
    assert "still holds finished parts of files not named this time: '0.parquet'" in told[-1]
    filled(own, model, out)
    assert contents(out) == undisturbed


@pytest.mark.parametrize("then", ["left out", "as it was", "another"])
def test_a_file_that_was_damaged_since(then, own, data, model, undisturbed, tmp_path, monkeypatch):
    out = tmp_path / "out"
    stopped(2, own, model, out, monkeypatch)
    own[0].write_bytes(b"PAR1 and no more")
    assert list(filled(own, model, out).problems) == [own[0]]
    if then == "left out":
        filled(own[1:], model, out)
        assert contents(out) == without(own[0], undisturbed)
        return
    own[0].write_bytes(data[0 if then == "as it was" else 2].read_bytes())
    filled(own, model, out)
    assert (contents(out) == undisturbed) == (then == "as it was")
    assert not (out / "plmcmc.part").exists()


def test_fewer_files_by_another_seed_are_another_job(own, model, tmp_path, monkeypatch):
    stopped(3, own, model, tmp_path / "out", monkeypatch)
    left = [own[0], own[2]]
    with pytest.raises(FileExistsError, match=r"differences: data, seed\)"):
        filled(left, model, tmp_path / "out", seed=5)
    filled(left, model, tmp_path / "out", seed=5, overwrite=True)
    filled(left, model, tmp_path / "anew", seed=5)
    assert contents(tmp_path / "out") == contents(tmp_path / "anew")


def test_to_overwrite_with_fewer_files_is_to_begin_anew(own, model, tmp_path, monkeypatch):
    stopped(1, own, model, tmp_path / "out", monkeypatch)
    assert not told_by(own[1:], model, tmp_path / "out", overwrite=True)
    filled(own[1:], model, tmp_path / "anew")
    assert contents(tmp_path / "out") == contents(tmp_path / "anew")


def test_to_overwrite_with_the_same_files_goes_on(own, model, undisturbed, tmp_path, monkeypatch):
    stopped(1, own, model, tmp_path / "out", monkeypatch)
    told = told_by(own, model, tmp_path / "out", overwrite=True)
    assert "holds 1 filled part." in told[0]
    assert contents(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("names", [["c", "a"], ["a", "d"], ["a", "b", "c", "d"]])
def test_other_files_are_another_job(names, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"data": ["a", "b", "c"]}))
    (tmp_path / "manifest.jsonl").write_text('{"part"\n')
    paths = [tmp_path / name for name in names]
    assert numbered(paths, tmp_path, {"data": names}).names == names
    files = numbered([tmp_path / "a", tmp_path / "c"], tmp_path, {"data": ["a", "c"]})
    assert (list(files.paths), files.left_out) == ([0, 2], {1: "b"})


def test_of_a_job_that_has_done_nothing_no_numbers_are_taken(tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"data": ["a", "b"]}))
    assert numbered([tmp_path / "b"], tmp_path, {"data": ["b"]}).names == ["b"]
