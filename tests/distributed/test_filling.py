"""Files filled part by part: as they would be whole, whatever stops it, and nothing twice."""

import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from part_by_part import PART, ROWS, contents, filled, interrupted_after, touched_at_work
from plmcmc import FlowImputer, rng
from plmcmc.disk import WriteError
from plmcmc.distributed import filling, impute, work_plan, worker
from plmcmc.distributed.filling import streamed
from plmcmc.distributed.work_plan import Order, Task, check_unchanged, stamp_of
from plmcmc.rng import part_seed
from plmcmc.tables.job import MANIFEST
from toy_tables import TINY, mixed, with_holes

pytestmark = pytest.mark.usefixtures("small_parts")


@pytest.fixture(scope="module")
def whole(model, data):
    """What whole files are filled with, each with the seeds of its number."""
    imputer = FlowImputer.load(model)
    imputer.progress = False
    found = []
    for number, path in enumerate(data):
        imputer.origin_ = (number, 0)
        frame = pd.read_parquet(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rng, "PART_ROWS", PART)
            found.append(imputer.transform(frame.drop(columns="when")).assign(when=frame["when"]))
    return found


def test_files_are_filled_as_whole_ones(data, model, whole, tmp_path):
    done = filled(data, model, tmp_path / "out")
    assert done.written == [tmp_path / "out" / path.name for path in data]
    assert (done.rows, done.problems) == (sum(ROWS), {})
    assert done.passed == {"id": "not in the model", "when": "not in the model"}
    for path, own in zip(data, whole, strict=True):
        found = pd.read_parquet(tmp_path / "out" / path.name)
        pd.testing.assert_frame_equal(found, own, check_exact=True)
        before = pq.read_table(path)
        after = pq.read_table(tmp_path / "out" / path.name)
        assert after.schema.equals(before.schema, check_metadata=True)
        for name in before.column_names:
            seen = before.column(name).is_valid()
            assert (
                after.column(name).filter(seen).to_pylist()
                == before.column(name).filter(seen).to_pylist()
            )
            assert after.column(name).null_count == 0
    missing = sum(pd.read_parquet(path).isna().sum() for path in data)
    assert done.missing == {name: count for name, count in missing.items() if count}
    assert done.found.holes == missing.sum()
    assert sorted(os.listdir(tmp_path / "out")) == [path.name for path in data]


@pytest.mark.parametrize("most", [1, 3])
def test_what_is_filled_in_does_not_depend_on_the_tasks(
    most, data, model, undisturbed, tmp_path, monkeypatch
):
    monkeypatch.setattr(work_plan, "MOST_TASKS", most)
    filled(data, model, tmp_path / "out")
    assert contents(tmp_path / "out") == undisturbed


def test_another_seed_fills_in_others(data, model, undisturbed, tmp_path):
    for seed in (3, 4):
        filled(data, model, tmp_path / str(seed), seed=seed)
    assert contents(tmp_path / "3") == undisturbed
    assert contents(tmp_path / "4") != undisturbed


def test_files_with_the_same_rows_get_other_draws(data, model, tmp_path):
    twin = tmp_path / "twin.parquet"
    twin.write_bytes(data[0].read_bytes())
    filled([data[0], twin], model, tmp_path / "out", statistic="draw")
    first, second = (pq.read_table(path) for path in sorted((tmp_path / "out").iterdir()))
    assert not first.equals(second)


def test_draws_and_one_file(data, model, tmp_path):
    done = filled(data[:1], model, tmp_path / "out.parquet", draws=2)
    assert [path.name for path in done.written] == ["out-1.parquet", "out-2.parquet"]
    first, second = (pq.read_table(path) for path in done.written)
    assert not first.equals(second)
    assert first.num_rows == second.num_rows == ROWS[0]


def test_a_flag_is_added(data, tmp_path):
    frame = pd.read_parquet(data[0]).drop(columns="when")
    effort = replace(TINY, states=20)
    FlowImputer(effort, random_state=0, progress=False).fit(frame).save(tmp_path / "model")
    filled(data[:2], tmp_path / "model", tmp_path / "out", flag="settled")
    for path in (tmp_path / "out").iterdir():
        assert pq.read_table(path).column("settled").type == pa.bool_()


@pytest.mark.parametrize("parts", [1, 3, 5])
def test_stopped_it_goes_on(parts, data, model, undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_after(parts, patch)
        with pytest.raises(KeyboardInterrupt, match=f"keeps {parts} filled part"):
            filled(data, model, tmp_path / "out")
    told, seen = [], []
    work = filling.Worker.work
    monkeypatch.setattr(
        filling.Worker, "work", lambda self, task: seen.append(task) or work(self, task)
    )
    impute(data, model, tmp_path / "out", progress=False, tell=told.append)
    assert f"holds {parts} filled part" in told[0]
    assert len(seen) == 6 - parts
    assert contents(tmp_path / "out") == undisturbed


def test_a_line_that_was_not_finished_is_done_again(
    data, model, undisturbed, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            filled(data, model, tmp_path / "out")
    manifest = tmp_path / "out" / "plmcmc.part" / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-5])
    (tmp_path / "out" / "plmcmc.part" / "rows-0-0-0.parquet").unlink()
    filled(data, model, tmp_path / "out")
    assert contents(tmp_path / "out") == undisturbed


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 5}, "seed"),
        ({"statistic": "draw"}, "statistic"),
        ({"na_values": ["9"]}, "na-values"),
        ({"model": "other"}, "model"),
        ({"data": "in another order"}, "data"),
        ({"data": "changed"}, "0.parquet has changed since parts of it were filled"),
    ],
)
def test_another_job_is_refused_by_name(change, named, data, model, tmp_path, monkeypatch):
    own = [tmp_path / path.name for path in data]
    for path, place in zip(data, own, strict=True):
        place.write_bytes(path.read_bytes())
    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            filled(own, model, tmp_path / "out")
    options = {"data": own, "model": model} | {
        name: value for name, value in change.items() if name not in ("data", "model")
    }
    if "model" in change:
        imputer = FlowImputer.load(model)
        imputer.seed_ = 99
        imputer.save(tmp_path / "other")
        options["model"] = tmp_path / "other"
    if change.get("data") == "in another order":
        options["data"] = [own[1], own[0]]
    if change.get("data") == "changed":
        own[0].write_bytes(data[1].read_bytes())
    before = contents(tmp_path / "out" / "plmcmc.part")
    with pytest.raises(FileExistsError, match=f"differences: .*{named}"):
        filled(options.pop("data"), options.pop("model"), tmp_path / "out", **options)
    assert contents(tmp_path / "out" / "plmcmc.part") == before
    filled(own, model, tmp_path / "out", overwrite=True)


def test_a_file_that_cannot_be_read_leaves_the_others_done(data, model, undisturbed, tmp_path):
    own = [tmp_path / path.name for path in data]
    for path, place in zip(data, own, strict=True):
        place.write_bytes(path.read_bytes())
    own[1].write_bytes(data[1].read_bytes()[:500])
    done = filled(own, model, tmp_path / "out")
    assert list(done.problems) == [own[1]]
    assert "cannot be read" in done.problems[own[1]]
    assert [path.name for path in done.written] == [own[0].name, own[2].name]
    # Mended, it alone is done.
    own[1].write_bytes(data[1].read_bytes())
    told = []
    done = impute(own, model, tmp_path / "out", progress=False, tell=told.append)
    assert "Resuming" in told[0]
    assert not done.problems
    assert contents(tmp_path / "out") == undisturbed


def test_a_value_that_the_model_does_not_know_is_named_by_its_row(data, model, tmp_path):
    frame = pd.read_parquet(data[0])
    frame.loc[frame.index[140], "colour"] = "mauve"
    bad = tmp_path / "bad.parquet"
    frame.to_parquet(bad)
    done = filled([bad, *data[1:]], model, tmp_path / "out")
    assert "row 141, column 'colour'" in done.problems[bad]
    assert len(done.written) == 2
    # The parts that were done are of a content that is no more.
    bad.write_bytes(data[0].read_bytes())
    assert not filled([bad, *data[1:]], model, tmp_path / "out").problems
    filled([bad, *data[1:]], model, tmp_path / "whole")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def with_mauve(path, place):
    """Write a file with a value that the model does not know, in its last part."""
    frame = pd.read_parquet(path)
    frame.loc[frame.index[140], "colour"] = "mauve"
    frame.to_parquet(place)
    return place


def test_a_refused_file_alone_leaves_nothing_that_is_in_the_way(data, model, tmp_path):
    bad, out = with_mauve(data[0], tmp_path / "bad.parquet"), tmp_path / "out.parquet"
    with pytest.raises(ValueError, match="mark it missing with --na-values") as problem:
        filled(bad, model, out)
    assert "out.parquet.part" not in str(problem.value)
    assert not list(tmp_path.glob("*out*"))
    assert not filled(bad, model, out, na_values=["mauve"]).problems


def test_a_file_that_may_be_accepted_later_keeps_its_parts(data, model, tmp_path, monkeypatch):
    own, out = tmp_path / "own.parquet", tmp_path / "out.parquet"
    own.write_bytes(data[0].read_bytes())
    with monkeypatch.context() as patch:
        touched_at_work(own, patch)
        with pytest.raises(ValueError, match=r"out\.parquet\.part keeps .* pass --overwrite"):
            filled(own, model, out)
    told = []
    impute(own, model, out, progress=False, tell=told.append)
    assert "holds 1 filled part." in told[0]


def test_refused_files_alone_do_not_end_the_job_of_others(data, model, tmp_path, monkeypatch):
    bad, out = with_mauve(data[0], tmp_path / data[0].name), tmp_path / "out"
    with monkeypatch.context() as patch:
        interrupted_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            filled([data[2], bad], model, out)
    with pytest.raises(ValueError, match=r"(?s)mauve.*plmcmc\.part keeps the finished work"):
        filled([bad], model, out)
    assert list(filled([data[2], bad], model, out).problems) == [bad]
    # What is written stays noted, too.
    with pytest.raises(ValueError, match=r"plmcmc\.part keeps the finished work"):
        filled([bad], model, out)


def test_nothing_that_can_be_filled_is_an_error(model, tmp_path):
    for name in "ab":
        pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match="columns of the model"):
        filled([tmp_path / "a.parquet", tmp_path / "b.parquet"], model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_told_of_and_the_rest_done_later(
    data, model, undisturbed, tmp_path, monkeypatch
):
    count, write = iter(range(3)), worker.write_all

    def full(files):
        if next(count, None) is None:
            raise WriteError("no room")
        write(files)

    with monkeypatch.context() as patch:
        patch.setattr(worker, "write_all", full)
        with pytest.raises(WriteError, match=r"no room; .* keeps 3 filled parts"):
            filled(data, model, tmp_path / "out")
    filled(data, model, tmp_path / "out")
    assert contents(tmp_path / "out") == undisturbed


def test_files_without_rows_and_without_holes_are_copied(data, model, tmp_path):
    frame = pd.read_parquet(data[0])
    frame.iloc[:0].to_parquet(tmp_path / "none.parquet")
    frame.dropna().to_parquet(tmp_path / "full.parquet")
    names = ["none.parquet", "full.parquet"]
    done = filled([tmp_path / name for name in names], model, tmp_path / "out")
    assert done.found.holes == 0
    for name in names:
        before, after = pq.read_table(tmp_path / name), pq.read_table(tmp_path / "out" / name)
        assert after.equals(before)
        assert after.schema.equals(before.schema, check_metadata=True)


def test_levels_that_a_file_has_not_declared_can_be_filled_in(model, tmp_path):
    frame, _ = with_holes(mixed(80))
    frame["grade"] = pd.Categorical([None] * 79 + ["low"], categories=["low"], ordered=True)
    frame.to_parquet(tmp_path / "a.parquet")
    filled([tmp_path / "a.parquet"], model, tmp_path / "b.parquet")
    assert set(pd.read_parquet(tmp_path / "b.parquet")["grade"]) <= {"low", "mid", "high"}


def test_the_manifest_has_a_line_for_every_part(data, model, tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1 and no more")
    filled([*data, bad], model, tmp_path / "out")
    text = (tmp_path / "out" / "plmcmc.part" / MANIFEST).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    parts = [line["part"] for line in lines if "part" in line]
    assert sorted(parts) == [[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]]
    assert [line["whole"] for line in lines if "whole" in line] == [0, 1, 2]
    assert not list((tmp_path / "out" / "plmcmc.part").glob("rows-*"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "spark"}, "one of stream, ray"),
        ({"workers": 2}, "workers: only used by the engine ray"),
        ({"engine": "ray", "workers": 0}, "workers: expected a whole number, at least 1; got 0"),
        ({"engine": "ray", "workers": 2.5}, "workers: expected a whole number"),
        ({"engine": "ray", "gpus_per_worker": float("nan")}, "0 or more"),
        ({"engine": "ray", "gpus_per_worker": 1.5}, "whole above 1"),
        ({"draws": 2, "statistic": "mean"}, "leave out one of them"),
        ({"seed": -1}, "seed: expected a whole number, at least 0"),
        ({"na_values": "none"}, r"a list of words, such as \['none'\]"),
        ({"na_values": [-999]}, r"a list of words, such as \['-999'\]"),
        ({"na_values": 9}, r"a list of words, such as \['9'\]"),
        ({"flag": True}, "flag: expected a name for the column to add; got True"),
        ({"engine": "ray", "address": ""}, "address: expected the address of a Ray cluster"),
        ({"engine": "ray", "address": 5}, "address: expected the address of a Ray cluster"),
        (
            {"engine": "ray", "gpus_per_worker": None},
            "expected the GPUs per worker to be 0 or more",
        ),
        ({"flag": ""}, "flag: expected a name"),
        ({"engine": "ray", "gpus_per_worker": -1}, "0 or more"),
        ({"engine": "ray", "device": "cuda"}, "not used by the engine ray"),
        ({"draws": 0}, "at least 1"),
        ({"statistic": "mode"}, "must be one of"),
        ({"flag": "settled"}, "at least 20 states"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words, data, model, tmp_path):
    with pytest.raises(ValueError, match=words):
        filled(data, model, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["data", "model", "output"])
@pytest.mark.parametrize("value", ["", None, 5, b"x.parquet"])
def test_what_is_no_path_is_refused(name, value, data, model, tmp_path):
    given = {"data": data, "model": model, "output": tmp_path / "out"} | {name: value}
    with pytest.raises(ValueError, match=f"{name}: expected the name of a file or directory"):
        impute(**given)


def test_workers_are_told_where_files_are_from_anywhere(data, model, tmp_path, monkeypatch):
    """Relative names would be looked for in each worker's own directory."""
    tasks = []

    def noted(order, own):
        tasks.extend(own)
        yield from streamed(order, own)

    monkeypatch.setattr(filling, "streamed", noted)
    monkeypatch.chdir(data[0].parent)
    impute([path.name for path in data], model, tmp_path / "out", progress=False)
    assert {task.path for task in tasks} == {str(path) for path in data}


def test_one_file_need_not_stand_in_a_list(data, model, tmp_path):
    assert filled(str(data[1]), model, tmp_path / "out.parquet").rows == ROWS[1]


@pytest.mark.parametrize("place", ["", "inside", "inside.parquet"])
def test_the_model_is_no_place_to_write_to(place, data, model):
    before = contents(model)
    with pytest.raises(ValueError, match="expected a place outside of the model"):
        filled(data[:1], model, model / place, overwrite=True)
    assert contents(model) == before


def test_a_directory_of_files_is_refused(data, model, tmp_path):
    with pytest.raises(IsADirectoryError, match=r"such as .*/\*\.parquet"):
        filled(data[0].parent, model, tmp_path / "out")


def test_other_forms_are_refused(model, tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match="expected Parquet files"):
        filled([tmp_path / "a.csv"], model, tmp_path / "out")


def test_seeds_of_parts_are_those_of_the_file(data, model, tmp_path):
    imputer = FlowImputer.load(model)
    imputer.progress, imputer.seed_ = False, part_seed(imputer.seed_, 1, 2)
    frame = pd.read_parquet(data[2]).drop(columns="when")
    filled(data, model, tmp_path / "out")
    found = pd.read_parquet(tmp_path / "out" / data[2].name).drop(columns="when")
    assert imputer.transform(frame.iloc[PART:]).equals(found.iloc[PART:])
    assert np.isfinite(found["size"]).all()


@pytest.mark.parametrize("parts", [1, 3])
def test_a_file_that_is_replaced_at_work_is_refused(
    parts, data, model, undisturbed, tmp_path, monkeypatch
):
    own = [tmp_path / path.name for path in data]
    for path, place in zip(data, own, strict=True):
        place.write_bytes(path.read_bytes())
    work, count = worker.Worker._done, iter(range(parts - 1))

    def replaces(self, *given):
        told = work(self, *given)
        if next(count, None) is None:
            own[0].write_bytes(data[1].read_bytes())
        return told

    with monkeypatch.context() as patch:
        patch.setattr(worker.Worker, "_done", replaces)
        done = filled(own, model, tmp_path / "out")
    assert "0.parquet: expected the file not to change" in done.problems[own[0]]
    assert not (tmp_path / "out" / "0.parquet").exists()
    own[0].write_bytes(data[0].read_bytes())
    assert not filled(own, model, tmp_path / "out").problems
    assert contents(tmp_path / "out") == undisturbed


def test_a_file_that_is_gone_is_refused(data, tmp_path):
    place = tmp_path / "a.parquet"
    place.write_bytes(data[0].read_bytes())
    stamp = stamp_of(place)
    check_unchanged(place, json.loads(json.dumps(stamp)))
    place.unlink()
    with pytest.raises(ValueError, match="it is gone"):
        check_unchanged(place, stamp)


def test_rows_that_are_not_there_are_missed(data, model, tmp_path):
    order = Order(model, tmp_path, None, None, None, None, (), "cpu")
    task = Task(0, str(data[1]), [(0, 0, ROWS[1] + 1)], stamp_of(data[1]))
    (told,) = worker.Worker(order).work(task)
    assert "expected rows 1 to 65" in told["problem"]


def test_parts_that_are_damaged_are_done_again(data, model, undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            filled(data, model, tmp_path / "out")
    places = [tmp_path / "out" / "plmcmc.part" / f"rows-0-{n}-0.parquet" for n in range(2)]
    for place in places:
        place.write_bytes(place.read_bytes()[:-50])
    told = []
    done = impute(data, model, tmp_path / "out", progress=False, tell=told.append)
    assert told[1:] == [f"{place} is damaged: filling the part again" for place in places]
    assert done.rows == sum(ROWS)
    assert contents(tmp_path / "out") == undisturbed


@pytest.fixture
def unfinished(data, model, tmp_path):
    """A job of which the last file is damaged: what is done of the others stays noted."""
    bad = tmp_path / data[2].name
    bad.write_bytes(b"PAR1 and no more")
    own = [*data[:2], bad]
    assert list(filled(own, model, tmp_path / "out").problems) == [bad]
    bad.write_bytes(data[2].read_bytes())
    return own


def spoil(place, how):
    content = place.read_bytes()
    if how == "cut":
        content = content[:-50]
    elif how == "replaced":
        content = content[:-50] + bytes(50)
    place.write_bytes(content)
    os.utime(place, (1, 1))


@pytest.mark.parametrize("how", ["cut", "replaced"])
def test_an_output_that_is_not_what_was_written_is_filled_again(
    how, unfinished, model, undisturbed, tmp_path
):
    place = tmp_path / "out" / "0.parquet"
    spoil(place, how)
    told = []
    done = impute(unfinished, model, tmp_path / "out", progress=False, tell=told.append)
    assert told[1:] == [f"{place} has changed since it was written: filling the file again"]
    assert done.rows == sum(ROWS)
    assert contents(tmp_path / "out") == undisturbed


def test_an_output_that_is_what_was_written_is_not_filled_again(
    unfinished, model, undisturbed, tmp_path, monkeypatch
):
    spoil(tmp_path / "out" / "0.parquet", "touched")
    seen, work = set(), filling.Worker.work
    monkeypatch.setattr(
        filling.Worker, "work", lambda self, task: seen.add(task.file) or work(self, task)
    )
    filled(unfinished, model, tmp_path / "out")
    assert seen == {2}
    assert contents(tmp_path / "out") == undisturbed


def test_a_disk_that_keeps_nothing_is_not_tried_for_ever(data, model, tmp_path, monkeypatch):
    write = worker.write_all

    def cut(files):
        write({place: own[:-50] for place, own in files.items()})

    monkeypatch.setattr(worker, "write_all", cut)
    with pytest.raises(WriteError, match="twice, they were different"):
        filled(data[:1], model, tmp_path / "out")


def test_a_file_without_rows_beside_one_that_is_damaged(data, model, tmp_path):
    own = [tmp_path / "none.parquet", tmp_path / "bad.parquet"]
    pd.read_parquet(data[0]).iloc[:0].to_parquet(own[0])
    own[1].write_bytes(b"PAR1 and no more")
    assert list(filled(own, model, tmp_path / "out").problems) == [own[1]]
    own[1].write_bytes(data[1].read_bytes())
    told = []
    done = impute(own, model, tmp_path / "out", progress=False, tell=told.append)
    assert "holds 1 written table" in told[0]
    assert (done.problems, done.rows) == ({}, ROWS[1])


@pytest.mark.parametrize("link", [False, True])
def test_what_is_read_is_not_written_over(link, data, model, tmp_path):
    (tmp_path / "in").mkdir()
    own = [tmp_path / "in" / path.name for path in data]
    for path, place in zip(data, own, strict=True):
        place.write_bytes(path.read_bytes())
    out = tmp_path / "in"
    if link:
        out = tmp_path / "out"
        out.symlink_to("in")
    with pytest.raises(FileExistsError, match="is one of the input files"):
        filled(own, model, out, overwrite=True)
    assert contents(tmp_path / "in") == contents(data[0].parent)
