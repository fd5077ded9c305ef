"""`plmcmc impute` of Parquet files by a model, and `plmcmc fit` of files larger than memory."""

import os
from argparse import Namespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from plmcmc import FlowImputer
from plmcmc.cli import fit, memory_budget
from plmcmc.imputation import EFFORTS
from plmcmc.training.tables.team import Team
from table_files import run, text
from toy_tables import LEAST, mixed, with_holes


@pytest.fixture(autouse=True)
def least(monkeypatch):
    monkeypatch.setitem(EFFORTS, "fast", LEAST)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("model") / "model"
    FlowImputer(LEAST, random_state=3, progress=False).fit(with_holes(mixed(120))[0]).save(place)
    return place


@pytest.fixture
def data(tmp_path):
    """Two good files, and one that was cut off, between them."""
    for number, name in enumerate("abc"):
        with_holes(mixed(60, seed=number))[0].to_parquet(tmp_path / f"{name}.parquet")
    cut = tmp_path / "b.parquet"
    cut.write_bytes(cut.read_bytes()[:-100])
    return [tmp_path / f"{name}.parquet" for name in "abc"]


def test_a_damaged_file_among_many(data, model, tmp_path, capsys):
    argv = ("impute", *data, "--model", model, "-o", tmp_path / "out")
    assert run(*argv) == 1
    told = capsys.readouterr()
    assert f"not filled: {data[1]}: expected a complete Parquet file" in told.err
    assert "1 of 3 files could not be filled; the others are done" in told.out
    assert sorted(os.listdir(tmp_path / "out")) == ["a.parquet", "c.parquet", "plmcmc.part"]
    with_holes(mixed(60, seed=1))[0].to_parquet(data[1])
    assert run(*argv) == 0
    assert sorted(os.listdir(tmp_path / "out")) == ["a.parquet", "b.parquet", "c.parquet"]
    assert "Resuming from" in capsys.readouterr().out
    for path in data:
        assert pq.read_table(tmp_path / "out" / path.name).column("size").null_count == 0


def test_a_damaged_file_is_left_out(data, model, tmp_path, capsys):
    argv = ("--model", model, "-o", tmp_path / "out")
    assert run("impute", *data, *argv) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "or leave them out of DATA and run it again, to finish without them" in told
    assert "other options need --overwrite, which discards it" in told
    assert run("impute", data[0], data[2], *argv) == 0
    assert "Not named this time, and left out: 'b.parquet'." in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path / "out")) == ["a.parquet", "c.parquet"]


def test_a_damaged_file_is_left_out_without_overwriting(data, model, tmp_path, capsys):
    argv = ("--model", model, "-o", tmp_path / "out")
    assert run("impute", *data, *argv, "--overwrite") == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "leave them out of DATA and run it again, without --overwrite, to finish" in told


def test_a_damaged_file_alone_is_refused(data, model, tmp_path):
    assert run("impute", data[1], "--model", model, "-o", tmp_path / "out.parquet") == 2
    assert not list(tmp_path.glob("out*"))


def test_files_are_filled_part_by_part_as_they_are_whole(data, model, tmp_path):
    good = [data[0], data[2]]
    report = ("--report", tmp_path / "report.html")
    assert run("impute", *good, "--model", model, "-o", tmp_path / "whole", *report) == 0
    assert run("impute", *good, "--model", model, "-o", tmp_path / "parts") == 0
    for path in good:
        whole, parts = (pq.read_table(tmp_path / own / path.name) for own in ("whole", "parts"))
        assert whole.equals(parts)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "stream"], "needs a saved model: pass --model"),
        (["--model", "MODEL", "--engine", "stream", "--report", "r.html"], "part by part"),
        (["--model", "MODEL", "--num-workers", "2"], "needs --engine ray"),
        (["--model", "MODEL", "--address", "auto"], "needs --engine ray"),
        (
            ["--model", "MODEL", "--gpus-per-worker", "1", "--engine", "stream"],
            "needs --engine ray",
        ),
        (
            ["--model", "MODEL", "--engine", "ray", "--num-workers", "0"],
            "workers: expected a whole number",
        ),
    ],
)
def test_engines_that_make_no_sense(options, words, data, model, tmp_path, capsys):
    given = [str(model) if word == "MODEL" else word for word in options]
    assert run("impute", data[0], "-o", tmp_path / "out.parquet", *given) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_text_is_not_streamed(model, tmp_path, capsys):
    (tmp_path / "a.csv").write_text(text())
    argv = ("impute", tmp_path / "a.csv", "--model", model, "-o", tmp_path / "b.csv")
    assert run(*argv, "--engine", "stream") == 2
    assert "expected Parquet files" in capsys.readouterr().err


def test_whole_tables_are_not_written_into_the_model_either(model, tmp_path, capsys):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        path.write_text(text())
    assert run("impute", *paths, "--model", model, "-o", model, "--overwrite") == 2
    assert "expected a place outside of the model" in capsys.readouterr().err


def test_a_name_that_ends_as_directories_do_is_one(data, model, tmp_path):
    out = f"{tmp_path}/filled.v1/"
    assert run("impute", data[0], "--model", model, "-o", out) == 0
    assert os.listdir(out) == ["a.parquet"]


def test_one_whole_table_is_not_written_to_a_directory(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(text())
    assert run("impute", tmp_path / "a.csv", "-o", f"{tmp_path}/b.csv/") == 2
    assert "b.csv/ is a directory: expected a file" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("command", ["fit", "impute"])
def test_a_directory_of_files(command, form, model, tmp_path, capsys):
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / f"a.{form}").touch()
    options = ["--model", model] if command == "impute" else []
    assert run(command, tmp_path / "big", "-o", tmp_path / "out", *options) == 2
    assert f"Name the files in it, such as {tmp_path / 'big'}/*.{form}" in capsys.readouterr().err


class TestFit:
    """`plmcmc fit` from some of the rows."""

    @pytest.mark.parametrize("form", ["csv", "parquet"])
    def test_it_says_from_which_rows_it_learns(self, form, tmp_path, capsys):
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("xyz"))
        path = tmp_path / f"a.{form}"
        frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
        argv = ("fit", path, "--effort", "fast")
        assert run(*argv, "-o", tmp_path / "model", "--rows", 40, "--seed", 5) == 0
        told = capsys.readouterr().out
        assert "Learning from 40 of 300 rows, chosen at random (seed 5): as set by --rows." in told
        assert FlowImputer.load(tmp_path / "model").rows_ == 40
        assert run(*argv, "-o", tmp_path / "all", "--rows", 1000) == 0
        assert FlowImputer.load(tmp_path / "all").rows_ == 300
        assert run(*argv, "-o", tmp_path / "none", "--rows", 3) == 2

    @pytest.mark.parametrize("form", ["csv", "parquet"])
    def test_files_larger_than_memory(self, form, tmp_path, capsys, monkeypatch):
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("xyz"))
        path = tmp_path / f"a.{form}"
        frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
        monkeypatch.setattr(memory_budget, "memory", lambda: (20_000, 20_000))
        monkeypatch.setattr(memory_budget, "ROWS", 50)
        assert run("fit", path, "--effort", "fast", "-o", tmp_path / "model") == 0
        told = capsys.readouterr().out
        assert (
            "Learning from 50 of 300 rows, chosen at random (seed 0): all rows would not fit"
            in told
        )
        assert run("impute", path, "--effort", "fast", "-o", tmp_path / f"out.{form}") == 0
        assert "may not fit into memory" in capsys.readouterr().err

    def test_processes_of_one_machine_share_its_memory(self, tmp_path, monkeypatch):
        path = tmp_path / "a.csv"
        path.write_text("x\n" * 100)
        taken = memory_budget.TEXT * path.stat().st_size
        monkeypatch.setattr(memory_budget, "memory", lambda: (3 * taken, 3 * taken))
        assert memory_budget.rows_to_read([path]) is None
        assert memory_budget.rows_to_read([path], processes=2) == memory_budget.ROWS

    def test_the_leader_of_a_team_decides(self, tmp_path, monkeypatch):
        path = tmp_path / "a.csv"
        path.write_text("x,y\n" + "1,2\n" * 300)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
        asked = []
        monkeypatch.setattr(fit, "rows_to_read", lambda _, processes: asked.append(processes))
        monkeypatch.setattr(Team, "agreed", lambda self, number: 20)
        arguments = Namespace(data=[path], rows=None, na_values=[], seed=None, exclude=[])
        (table,) = fit._read(arguments, Team(1, 2))
        assert (table.rows, asked) == (20, [2])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("rows", [(), ("--rows", 100)])
def test_files_may_differ_in_what_is_not_learned_from(first, rows, tmp_path):
    full, empty = (with_holes(mixed(60, seed=seed))[0] for seed in (0, 1))
    empty["size"] = None
    full["note"], empty["note"] = 1.5, "text"
    names = [tmp_path / name for name in (("b", "a") if first else ("a", "b"))]
    for name, frame in zip(names, (full, empty), strict=True):
        frame.to_parquet(name.with_suffix(".parquet"))
    data = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    ask = ("fit", *data, "-o", tmp_path / "model", "--effort", "fast", *rows)
    assert run(*ask) == 2
    assert run(*ask, "--exclude", "note") == 0
    assert "size" in FlowImputer.load(tmp_path / "model").layout_.names
