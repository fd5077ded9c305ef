"""Experiments go on from where they were stopped, run what is asked for, and say what they did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

from plmcmc.cli import main
from plmcmc.data import DataError
from plmcmc.disk import locked
from plmcmc.experiments import CATALOGUE, SCALES, experiment_of, reproduce
from plmcmc.experiments.ledger import LINES
from plmcmc.experiments.study import Experiment, Found, Place, more
from plmcmc.experiments.words import table, with_error

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
    return reproduce.reproduce("table2", output=path, say=lambda words: None, **options)


def test_two_at_once_in_one_directory(tmp_path, counting):
    run(tmp_path)
    with (
        locked(tmp_path / "table2-laptop" / LINES),
        pytest.raises(FileExistsError, match="table2-laptop is in use by another process"),
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
    own = tmp_path / "table2-laptop"
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
    with pytest.raises(ValueError, match="no part of table2 has 'x' in its name; one is 'part 0'"):
        run(tmp_path / "other", only="x")
    assert not (tmp_path / "other").exists()


def test_only_a_report(tmp_path, counting):
    run(tmp_path, only="part 1")
    assert "sum 1.0" in run(tmp_path, report_only=True)
    assert RUN == ["part 1"]


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
    with pytest.raises(ValueError, match="there is no experiment 'table9'"):
        experiment_of("table9", "smoke")
    with pytest.raises(ValueError, match="scale must be one of"):
        experiment_of("table2", "huge")


def test_data_that_is_not_there_is_asked_for(tmp_path, capsys):
    place = Place(tmp_path, tmp_path)
    with pytest.raises(DataError, match=r"reads uci/x.csv: give --data"):
        place.find("uci/x.csv")
    with pytest.raises(DataError, match=r"expected uci/x.csv or x.csv in"):
        Place(tmp_path, tmp_path, data=tmp_path).find("uci/x.csv", "x.csv")
    assert main(["reproduce", "table2", "-o", str(tmp_path / "out")]) == 2
    assert "give --data" in capsys.readouterr().err


def test_the_command_lists_all(capsys):
    assert main(["reproduce", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in CATALOGUE)
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
        ([], ""),
    ],
)
def test_numbers_are_printed_as_the_paper_does(values, words):
    assert with_error(values) == words


def test_tables_leave_out_rows_without_numbers():
    rows = [("one", ["1", ""]), ("two", ["", ""])]
    assert table("", ["a", "b"], rows) == "|  | a | b |\n|---|---|---|\n| one | 1 |  |\n"
