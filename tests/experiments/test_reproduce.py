"""Experiments go on from where they were stopped, run what is asked for, and say what they did."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from plmcmc.cli import main
from plmcmc.data import DataError
from plmcmc.disk import locked
from plmcmc.experiments import CATALOGUE, SCALES, experiment_of, reproduce
from plmcmc.experiments.ledger import LINES
from plmcmc.experiments.markdown import table, with_error
from plmcmc.experiments.study import Experiment, Found, Place, more

RUN: list[str] = []


@dataclass(frozen=True)
class Counting(Experiment):
    """Notes which of its parts are run."""

    rate: float = 0.5
    count: int = more(3)
    broken: ClassVar[str] = ""

    def parts(self):
        return [f"part {number}" for number in range(self.count)]

    def run(self, part, place):
        if part == self.broken:
            raise RuntimeError("stopped")
        RUN.append(part)
        return Found({"value": float(part[-1])})

    def report(self, found: Mapping[str, Found], place: Place):
        return f"sum {sum(own.numbers['value'] for own in found.values())}\n"


@pytest.fixture
def counting(monkeypatch):
    RUN.clear()
    own = {"settings": Counting()}
    monkeypatch.setattr(reproduce, "experiment_of", lambda name, scale: own["settings"])
    return own


def run(path, **options):
    return reproduce.reproduce("proposal", output=path, say=lambda words: None, **options)


def test_two_at_once_in_one_directory(tmp_path, counting):
    run(tmp_path)
    with (
        locked(tmp_path / "proposal-laptop" / LINES),
        pytest.raises(FileExistsError, match="proposal-laptop is in use by another process"),
    ):
        run(tmp_path)
    assert "3 of 3 parts" in run(tmp_path)


def test_finished_parts_are_not_run_again(tmp_path, counting):
    assert "sum 3.0" in run(tmp_path)
    assert RUN == ["part 0", "part 1", "part 2"]
    assert "3 of 3 parts" in run(tmp_path)
    assert len(RUN) == 3
    # More of the same adds up.
    counting["settings"] = Counting(count=5)
    assert "sum 10.0" in run(tmp_path)
    assert RUN[3:] == ["part 3", "part 4"]


def test_parts_whose_package_is_not_installed(tmp_path, counting, monkeypatch):
    """They count as parts, and are left out in words: reports once said 180 of 180, of 210."""
    monkeypatch.setattr(
        Counting, "needs", lambda self, part: "no_such_package" if part == "part 1" else ""
    )
    with pytest.raises(ValueError, match="part 1: expected no_such_package to be installed"):
        run(tmp_path, only="part 1")
    assert not (tmp_path / "proposal-laptop").exists()
    said = []
    report = reproduce.reproduce("proposal", output=tmp_path, say=said.append)
    assert "2 of 3 parts" in report
    assert RUN == ["part 0", "part 2"]
    words = "2 of 3 parts to run, 0 already done; 1 left out, as no_such_package is not installed"
    assert said[0] == f"proposal (laptop): {words}"
    assert "2 of 3 parts" in run(tmp_path, report_only=True)


def test_all_parts_of_table2_count():
    assert len(experiment_of("table2", "full").parts()) == 210


def test_a_run_that_was_stopped_goes_on(tmp_path, counting, monkeypatch):
    monkeypatch.setattr(Counting, "broken", "part 1")
    with pytest.raises(RuntimeError, match="stopped"):
        run(tmp_path)
    monkeypatch.setattr(Counting, "broken", "")
    run(tmp_path)
    assert RUN == ["part 0", "part 1", "part 2"]


def test_what_a_part_saved_of_itself_goes_when_its_numbers_are_kept(
    tmp_path, counting, monkeypatch
):
    """Not before: a kill in between would lose it all."""
    own = tmp_path / "proposal-laptop"
    saved = [own / "part-0.checkpoint", own / "part-1.checkpoint"]
    add, seen = reproduce.Ledger.add, []

    def noted(ledger, part, found):
        seen.append([path.exists() for path in saved])
        add(ledger, part, found)
        if part == "part 1":
            raise KeyboardInterrupt

    own.mkdir()
    saved[0].write_bytes(b"a file")
    (saved[1] / "rows").mkdir(parents=True)
    monkeypatch.setattr(reproduce.Ledger, "add", noted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert seen == [[True, True], [False, True]]
    # Killed between the two, the next run tidies up.
    monkeypatch.setattr(reproduce.Ledger, "add", add)
    run(tmp_path)
    assert not saved[1].exists()


def test_only_some_parts(tmp_path, counting):
    assert "1 of 3 parts" in run(tmp_path, only="part 1")
    assert RUN == ["part 1"]
    run(tmp_path, only="p*t 2")
    assert RUN == ["part 1", "part 2"]
    run(tmp_path, only="PART 0")
    assert RUN[-1] == "part 0"
    words = "no part of proposal contains 'x' in its name; its 3 parts are part 0; part 1; part 2"
    with pytest.raises(ValueError, match=words):
        run(tmp_path / "other", only="x")
    counting["settings"] = Counting(count=30)
    with pytest.raises(ValueError, match=r"its 30 parts are part 0; .*; part 9; and 20 more"):
        run(tmp_path / "other", only="x")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "banana"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_made(
    device, tmp_path, counting, capsys
):
    with pytest.raises(ValueError, match=f"device '{device}' cannot be used: .* Choose 'cpu'"):
        run(tmp_path / "out", device=device)
    asked = ["reproduce", "proposal", "--device", device, "-o", str(tmp_path / "out")]
    assert main(asked) == 2
    assert f"--device '{device}' cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", CATALOGUE)
def test_nothing_to_report(name, tmp_path, capsys):
    asked = ["reproduce", name, "--scale", "smoke", "--report-only", "-o", str(tmp_path / "out")]
    assert main(asked) == 2
    shown = capsys.readouterr()
    assert f"nothing has been run yet in {tmp_path / 'out'}/{name}-smoke: run `plmcmc" in shown.err
    assert shown.out == ""
    assert not (tmp_path / "out").exists()


def test_nothing_to_report_after_a_run_that_did_nothing(tmp_path, counting, monkeypatch):
    monkeypatch.setattr(Counting, "broken", "part 0")
    with pytest.raises(RuntimeError, match="stopped"):
        run(tmp_path)
    with pytest.raises(ValueError, match="nothing has been run yet"):
        run(tmp_path, report_only=True)


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_whoever_is_stopped_has_a_report_and_is_told_what_is_kept(
    problem, tmp_path, counting, monkeypatch
):
    def stopped(settings, part, place):
        if part == "part 2":
            raise problem("stopped")
        return Found({"value": float(part[-1])})

    monkeypatch.setattr(Counting, "run", stopped)
    said, own = [], tmp_path / "proposal-laptop"
    with pytest.raises(problem, match="stopped"):
        reproduce.reproduce("proposal", output=tmp_path, say=said.append)
    assert said[-1] == f"2 of 3 parts are kept in {own}; run the same command again to resume"
    assert "2 of 3 parts" in (own / "report.md").read_text()
    assert "sum 1.0" in (own / "report.md").read_text()


def test_a_report_that_fails_does_not_hide_what_stopped_the_run(tmp_path, counting, monkeypatch):
    def fail(*given):
        raise KeyError("report")

    monkeypatch.setattr(Counting, "broken", "part 1")
    monkeypatch.setattr(Counting, "report", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        run(tmp_path)


def test_arrays_that_are_lost_are_made_again(tmp_path, counting, monkeypatch):
    def found(settings, part, place):
        RUN.append(part)
        return Found({"value": float(part[-1])}, {"curve": np.arange(3)})

    monkeypatch.setattr(Counting, "run", found)
    run(tmp_path)
    shutil.rmtree(tmp_path / "proposal-laptop" / "arrays")
    said = []
    report = reproduce.reproduce("proposal", output=tmp_path, only="part 1", say=said.append)
    assert said[0].startswith("To be run again, as their arrays in")
    assert said[0].endswith("are lost or damaged: part 0; part 1; part 2")
    assert "1 of 3 parts" in report
    assert RUN[3:] == ["part 1"]


def test_only_a_report(tmp_path, counting):
    run(tmp_path, only="part 1")
    assert "sum 1.0" in run(tmp_path, report_only=True)
    assert RUN == ["part 1"]
    with pytest.raises(ValueError, match="leave out --only 'part 1'"):
        run(tmp_path, only="part 1", report_only=True)


def test_settings_that_count_are_told_apart_from_those_that_do_not():
    assert Counting().settings() == {"rate": 0.5}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_experiment_has_every_scale(name, scale):
    experiment = experiment_of(name, scale)
    parts = experiment.parts()
    assert parts
    assert len(set(parts)) == len(parts)
    assert experiment.readings


def test_there_is_no_such_experiment():
    with pytest.raises(ValueError, match="unknown experiment 'table9'"):
        experiment_of("table9", "smoke")
    with pytest.raises(ValueError, match="scale must be one of"):
        experiment_of("table2", "huge")


def test_data_that_is_not_there_is_asked_for(tmp_path, capsys):
    place = Place(tmp_path, tmp_path)
    with pytest.raises(DataError, match=r"reads uci/x.csv: pass --data"):
        place.find("uci/x.csv")
    with pytest.raises(DataError, match=r"expected uci/x.csv or x.csv in .*; found neither"):
        Place(tmp_path, tmp_path, data=tmp_path).find("uci/x.csv", "x.csv")
    with pytest.raises(DataError, match=r"expected faces in .*; found nothing of that name"):
        Place(tmp_path, tmp_path, data=tmp_path).find("faces")
    assert main(["reproduce", "table2", "-o", str(tmp_path / "out")]) == 2
    assert "pass --data" in capsys.readouterr().err
    # A directory that is not there is named, not all that might have been in it.
    (tmp_path / "file").touch()
    for name, kind in (("nowhere", "nothing"), ("file", "a file")):
        own = tmp_path / name
        assert main(["reproduce", "mnist", "--data", str(own), "-o", str(tmp_path / "out")]) == 2
        told = capsys.readouterr().err
        assert (
            told == f"plmcmc: expected a directory of data at {own} (--data); found {kind} there\n"
        )
    assert not (tmp_path / "out").exists()


def test_all_that_is_missing_is_told_before_anything_is_run(tmp_path, capsys):
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "uci").mkdir(parents=True)
    for name in ("banknote", "yeast"):
        (data / "uci" / f"{name}.csv").write_text("a,b\n1,2\n3,word\n")
    asked = ["--data", str(data), "-o", str(out)]
    assert main(["reproduce", "table2", *asked]) == 2
    told = capsys.readouterr().err
    assert all(f"uci/{name}.csv" in told for name in ("breast", "concrete", "red-wine"))
    assert "uci/banknote.csv or" not in told
    assert told.count("found none of them") == 1
    # What is there is read, too.
    assert told.count("line 3, column 2: expected a number; got 'word'") == 2
    for name in ("mnist", "decisions", "table1"):
        assert main(["reproduce", name, *asked]) == 2
        told = capsys.readouterr().err
        assert told.count("found none of them") == 1
        assert len(told) < 400
    assert main(["reproduce", "cifar", *asked]) == 2
    told = capsys.readouterr().err
    assert "cifar10/test.npy" in told
    assert "plmcmc fit-flow" in told
    assert not out.exists()
    # Only what is asked for is looked for.
    (data / "uci" / "yeast.csv").write_text("a,b\n" + "1,2\n3,5\n4,4\n" * 4)
    assert main(["reproduce", "table2", *asked, "--only", "yeast, mask 0, mean"]) == 0
    # What is done needs nothing any more.
    assert main(["reproduce", "table2", "-o", str(out), "--only", "yeast, mask 0, mean"]) == 0


def test_the_command_lists_all(capsys):
    assert main(["reproduce", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in CATALOGUE)
    # Sections and appendices, such as "6.1, E.1", and nothing else.
    one = r"(\d\.\d|[B-E](\.\d)?)"
    sections = [entry.section for entry in CATALOGUE.values()]
    assert [own for own in sections if not re.fullmatch(f"{one}(, {one})*", own)] == []
    assert main(["reproduce"]) == 2
    assert "--list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.55, 0.58, 0.61], "0.58(2)"),
        ([1.0, 1.0], "1.0000(0)"),
        ([10.0, 20.0, 60.0], "30(15)"),
        ([0.0950, 0.1050, 0.1150], "0.105(6)"),
        ([0.5, float("nan")], "0.500"),
        ([0.0, 0.196], "0.1(1)"),
        ([390.4, 409.6], "400(10)"),
        ([], ""),
    ],
)
def test_numbers_are_printed_as_the_paper_does(values, words):
    assert with_error(values) == words


def test_tables_leave_out_rows_without_numbers():
    rows = [("one", ["1", ""]), ("two", ["", ""])]
    assert table("", ["a", "b"], rows) == "|  | a | b |\n|---|---|---|\n| one | 1 |  |\n"


def test_help_says_what_exit_codes_mean_here(capsys):
    for command, parquet in (("reproduce", False), ("impute", True)):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert ("several Parquet files could not" in capsys.readouterr().out) == parquet
