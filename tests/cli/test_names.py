"""Names and counts that cannot be: refused before the work, in words."""

import os

import pytest

from plmcmc.cli import request
from table_files import run

pytestmark = pytest.mark.usefixtures("tiny")


def refused(capsys, *argv):
    assert run(*argv) == 2
    told = capsys.readouterr().err
    assert told.startswith("plmcmc: ")
    assert told.count("\n") == 1
    return told


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ("--model", ("--model", "")),
        ("--report", ("--report", "")),
        ("--types", ("--types", "")),
        ("-o", ("-o", "")),
    ],
)
def test_empty(option, more, data, tmp_path, capsys):
    told = refused(capsys, "impute", data, "-o", tmp_path / "out.csv", *more)
    assert f"{option}: expected the name of a file or directory; got an empty string" in told
    assert os.listdir(tmp_path) == ["data.csv"]


@pytest.mark.parametrize("command", ["impute", "fit", "fit-flow"])
def test_empty_and_zero_bytes(command, data, tmp_path, capsys):
    assert "DATA: expected the name" in refused(capsys, command, "", "-o", tmp_path / "o")
    told = refused(capsys, command, data, "-o", tmp_path / "a\0.csv")
    assert "expected a valid file name; this one contains a zero byte" in told
    assert "DATA 'x\\x00': expected" in refused(capsys, command, "x\0", "-o", tmp_path / "o")


@pytest.mark.parametrize("command", ["impute", "fit", "fit-flow"])
def test_a_directory_that_is_there(command, data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = refused(capsys, command, data, "-o", ".", "--overwrite")
    assert ". is a directory: expected a" in told
    assert os.listdir(tmp_path) == ["data.csv"]


@pytest.mark.parametrize("size", [241, 242, 246, 250, 255])
@pytest.mark.parametrize("command", ["impute", "fit"])
def test_long_names(command, size, data, tmp_path, capsys):
    ends = ".csv" if command == "impute" else ""
    place = tmp_path / ("é" * ((size - len(ends)) // 2) + "x" * ((size - len(ends)) % 2) + ends)
    argv = (command, data, "-o", place, "--effort", "fast")
    if size <= 241:
        assert run(*argv) == 0
        assert sorted(os.listdir(tmp_path)) == ["data.csv", place.name]
        return
    told = refused(capsys, *argv)
    assert f"expected a name of at most 241 bytes; this one has {size}. Choose a shorter" in told
    assert os.listdir(tmp_path) == ["data.csv"]


@pytest.mark.parametrize("size", [255, 300])
@pytest.mark.parametrize(
    "argv",
    [("fit", "data.csv"), ("fit-flow", "data.zip"), ("impute", "data.parquet", "--model", "m")],
)
def test_long_names_are_refused_before_they_are_looked_for(argv, size, tmp_path, capsys):
    told = refused(capsys, *argv, "-o", tmp_path / ("o" * size))
    assert f"expected a name of at most 241 bytes; this one has {size}. Choose a shorter" in told
    assert os.listdir(tmp_path) == []


def test_a_report_of_a_long_name(data, tmp_path, capsys):
    report = tmp_path / ("r" * 245 + ".html")
    argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast", "--report", report)
    assert "expected a name of at most 241 bytes" in refused(capsys, *argv)


def test_more_draws_than_memory(data, tmp_path, capsys, monkeypatch):
    argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast", "--draws")
    told = refused(capsys, *argv, 10**15)
    assert f"--draws {10**15}: expected at most " in told
    assert "of memory is free. Use fewer draws" in told
    monkeypatch.setattr(request, "free_memory", lambda: 2**20)
    assert "expected at most 54, as only 0.0 GB" in refused(capsys, *argv, 55)
    monkeypatch.setattr(request, "free_memory", lambda: None)
    assert run(*argv, 2) == 0
