"""What is kept of a job that was stopped: gone on with by the same command, and by no other."""

import errno
import json
import os
import shutil
from argparse import Namespace
from contextlib import suppress

import pytest

from plmcmc import disk
from plmcmc.cli import fit as fit_command
from plmcmc.cli import impute as command
from plmcmc.cli.request import identity_of
from plmcmc.data import DataError
from plmcmc.imputation import FlowImputer
from plmcmc.tables import job as job_module
from plmcmc.tables.claims import is_ours
from plmcmc.tables.job import Filled, Found, claimed_places, part_of, working
from plmcmc.training import TrainingError
from plmcmc.training.tables.online_em import TableEM
from table_files import run, text

pytestmark = pytest.mark.usefixtures("tiny")
TABLE = Filled([b"one", b"two"], Found(3, 2, 4, 0.5))
OPTIONS = dict.fromkeys(("seed", "draws", "statistic", "flag")) | {"na_values": [], "device": "cpu"}
SAME = {"seed": 0, "data": [["a.csv", "abc"]], "exclude": ("x",)}


def stopped(path, identity, *, with_table=True):
    """A job that was interrupted with a table done, or with nothing."""
    try:
        with working(path, identity, overwrite=False) as job:
            if with_table:
                job.keep(0, TABLE)
            raise KeyboardInterrupt
    except KeyboardInterrupt as end:
        return str(end)


class TestWorking:
    def test_the_same_job_finds_what_was_kept(self, tmp_path, capsys):
        told = stopped(tmp_path / "out.part", SAME)
        assert told == (
            f"interrupted. {tmp_path / 'out.part'} keeps 1 filled table: run the same command "
            f"again to resume. To start over, delete it"
        )
        with working(tmp_path / "out.part", SAME, overwrite=False) as job:
            assert job.filled(0) == TABLE
            assert job.filled(1) is None
        assert f"Resuming from {tmp_path / 'out.part'}" in capsys.readouterr().out
        assert not (tmp_path / "out.part").exists()

    def test_another_job_does_not(self, tmp_path):
        stopped(tmp_path / "out.part", SAME)
        other = SAME | {"seed": 1}
        before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
        with (
            pytest.raises(FileExistsError, match=r"interrupted .differences: seed.\."),
            working(tmp_path / "out.part", other, overwrite=False),
        ):
            pass
        assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before
        with working(tmp_path / "out.part", other, overwrite=True) as job:
            assert job.filled(0) is None

    def test_overwriting_goes_on_with_the_same_job(self, tmp_path):
        stopped(tmp_path / "out.part", SAME)
        with working(tmp_path / "out.part", SAME, overwrite=True) as job:
            assert job.filled(0) == TABLE

    def test_nothing_done_leaves_nothing(self, tmp_path):
        told = stopped(tmp_path / "new" / "out.part", SAME, with_table=False)
        assert told == "interrupted before there was any progress to keep"
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(
        ("error", "stays"),
        [(DataError, False), (TrainingError, False), (ValueError, True), (OSError, True)],
    )
    def test_errors(self, error, stays, tmp_path):
        """The same input is refused again; a full disk may be emptied, and a fault mended."""
        with suppress(error), working(tmp_path / "out.part", SAME, overwrite=False) as job:
            job.keep(0, TABLE)
            raise error
        assert (tmp_path / "out.part").exists() == stays

    def test_half_a_table_is_none(self, tmp_path):
        stopped(tmp_path / "out.part", SAME)
        os.rename(tmp_path / "out.part" / "table-0", tmp_path / "out.part" / ".table-0.partial")
        with working(tmp_path / "out.part", SAME, overwrite=False) as job:
            assert job.filled(0) is None
            job.keep(0, TABLE)
            assert job.filled(0) == TABLE

    @pytest.mark.parametrize("name", ["0", "1", "found.json"])
    def test_a_damaged_table_is_none(self, name, tmp_path, capsys):
        stopped(tmp_path / "out.part", SAME)
        kept = tmp_path / "out.part" / "table-0" / name
        kept.write_bytes(kept.read_bytes()[:-1] + b"X")
        with working(tmp_path / "out.part", SAME, overwrite=False) as job:
            assert job.filled(0) is None
            assert "table-0 is damaged: filling the table again" in capsys.readouterr().out
            job.keep(0, TABLE)
            assert job.filled(0) == TABLE

    def test_what_had_not_taken_its_place_goes_with_a_refusal(self, tmp_path):
        path, place = tmp_path / "out.part", tmp_path / "out"
        with suppress(KeyboardInterrupt), working(path, SAME, overwrite=False) as job:
            job.claim([place])
            disk.partial_of(place).write_bytes(b"half")
            job.keep(0, TABLE)
            raise KeyboardInterrupt
        with suppress(FileExistsError), working(path, {"seed": 1}, overwrite=False):
            pass
        assert os.listdir(tmp_path) == ["out.part"]

    def test_a_refusal_leaves_the_job_that_it_names(self, tmp_path):
        path, place = tmp_path / "out.part", tmp_path / "out"
        with suppress(KeyboardInterrupt), working(path, SAME, overwrite=False) as job:
            job.claim([place])
            raise KeyboardInterrupt
        place.write_bytes(b"whole")
        with (
            pytest.raises(FileExistsError, match="Finish it with its own command"),
            working(path, {"seed": 1}, overwrite=False),
        ):
            pass
        assert is_ours(place, claimed_places(path))

    def test_another_s_file_is_known_by_what_it_holds(self, tmp_path):
        path, known, unknown = tmp_path / "out.part", tmp_path / "known", tmp_path / "unknown"
        with suppress(KeyboardInterrupt), working(path, SAME, overwrite=False) as job:
            job.claim({known: b"ours"})
            job.claim([unknown])
            raise KeyboardInterrupt
        known.write_bytes(b"ours")
        unknown.write_bytes(b"any")
        assert is_ours(known, claimed_places(path))
        assert is_ours(unknown, claimed_places(path))
        known.write_bytes(b"theirs")
        assert not is_ours(known, claimed_places(path))
        assert not is_ours(tmp_path / "elsewhere", claimed_places(path))

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_what_is_not_ours_is_not_touched(self, overwrite, tmp_path):
        (tmp_path / "out.part").mkdir()
        (tmp_path / "out.part" / "letter.txt").write_text("dear")
        with (
            pytest.raises(
                FileExistsError, match="was not created by plmcmc to hold an unfinished job"
            ),
            working(tmp_path / "out.part", SAME, overwrite=overwrite),
        ):
            pass
        assert (tmp_path / "out.part" / "letter.txt").read_text() == "dear"

    def test_what_is_kept_is_for_its_owner(self, tmp_path):
        stopped(tmp_path / "new" / "out.part", SAME)
        assert (tmp_path / "new" / "out.part").stat().st_mode & 0o777 == 0o700

    def test_two_at_once(self, tmp_path):
        with working(tmp_path / "out.part", SAME, overwrite=False) as job:
            job.keep(0, TABLE)
            # A lock is not shared within a process either.
            with (
                pytest.raises(FileExistsError, match="in use by another process"),
                working(tmp_path / "out.part", SAME, overwrite=True),
            ):
                pass
            assert job.filled(0) == TABLE

    def test_places(self, tmp_path):
        assert part_of(tmp_path / "a.csv", several=False) == tmp_path / "a.csv.part"
        assert part_of(tmp_path / "out", several=True) == tmp_path / "out" / "plmcmc.part"


def interrupt(*_, **__):
    raise KeyboardInterrupt


def count_steps(monkeypatch):
    """Count rounds of learning."""
    done, step = [], TableEM.step
    monkeypatch.setattr(TableEM, "step", lambda *given: done.append(1) or step(*given))
    return done


class TestImpute:
    def test_interrupted_while_drawing(self, data, tmp_path, monkeypatch, capsys):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
        assert run("impute", data, "-o", tmp_path / "whole.csv", "--effort", "fast") == 0
        with monkeypatch.context() as patch:
            patch.setattr(FlowImputer, "transform", interrupt)
            assert run(*argv) == 130
        told = capsys.readouterr().err
        assert f"{tmp_path / 'out.csv.part'} keeps the fitting progress" in told
        assert not (tmp_path / "out.csv").exists()
        done = count_steps(monkeypatch)
        assert run(*argv) == 0
        assert done == []
        assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "out.csv", "whole.csv"]

    def test_another_job_with_this_output(self, data, tmp_path, monkeypatch, capsys):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
        with monkeypatch.context() as patch:
            patch.setattr(FlowImputer, "transform", interrupt)
            assert run(*argv) == 130
        capsys.readouterr()
        assert run(*argv, "--seed", 1) == 2
        assert "(differences: seed). Finish it with its own command" in capsys.readouterr().err
        assert run(*argv, "--seed", 1, "--overwrite") == 0
        assert run("impute", data, "-o", tmp_path / "b.csv", "--effort", "fast", "--seed", 1) == 0
        assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()

    def test_changed_data_is_another_job(self, data, tmp_path, monkeypatch, capsys):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
        with monkeypatch.context() as patch:
            patch.setattr(FlowImputer, "transform", interrupt)
            assert run(*argv) == 130
        data.write_text(text(seed=1))
        assert run(*argv) == 2
        assert "differences: data" in capsys.readouterr().err

    def test_tables_that_are_done_are_not_filled_again(self, tmp_path, monkeypatch, capsys):
        paths = [tmp_path / f"{name}.csv" for name in "abc"]
        for seed, path in enumerate(paths):
            path.write_text(text(seed=seed))
        assert run("impute", *paths, "-o", tmp_path / "whole", "--effort", "fast") == 0
        argv = ("impute", *paths, "-o", tmp_path / "out", "--effort", "fast")
        fill, filled = command.filled, []

        def second_interrupted(learned, known, table, frame, **options):
            if len(filled) == 1:
                raise KeyboardInterrupt
            filled.append(table.path)
            return fill(learned, known, table, frame, **options)

        with monkeypatch.context() as patch:
            patch.setattr(command, "filled", second_interrupted)
            assert run(*argv) == 130
        assert "keeps the fitting progress and 1 filled table" in capsys.readouterr().err
        assert os.listdir(tmp_path / "out") == ["plmcmc.part"]
        monkeypatch.setattr(
            command,
            "filled",
            lambda *given, **options: filled.append(given[2].path) or fill(*given, **options),
        )
        assert run(*argv) == 0
        assert filled == paths
        assert sorted(os.listdir(tmp_path / "out")) == ["a.csv", "b.csv", "c.csv"]
        for path in paths:
            whole = (tmp_path / "whole" / path.name).read_bytes()
            assert (tmp_path / "out" / path.name).read_bytes() == whole

    def test_stopped_while_files_take_their_places(self, tmp_path, monkeypatch):
        paths = [tmp_path / f"{name}.csv" for name in "ab"]
        for seed, path in enumerate(paths):
            path.write_text(text(seed=seed))
        argv = ("impute", *paths, "-o", tmp_path / "out", "--effort", "fast")
        replace = os.replace

        def replaced(here, there):
            if str(there).endswith("b.csv"):
                raise KeyboardInterrupt
            replace(here, there)

        with monkeypatch.context() as patch:
            patch.setattr(disk.os, "replace", replaced)
            assert run(*argv) == 130
        assert sorted(os.listdir(tmp_path / "out")) == ["a.csv", "plmcmc.part"]
        assert run(*argv) == 0
        assert sorted(os.listdir(tmp_path / "out")) == ["a.csv", "b.csv"]

    def test_stopped_while_files_take_their_places_and_asked_for_another_report(
        self, data, tmp_path, monkeypatch, capsys
    ):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
        with monkeypatch.context() as patch:
            patch.setattr(job_module, "_remove", lambda *given: None)
            assert run(*argv, "--report", tmp_path / "first.html") == 0
        (tmp_path / "precious.html").write_text("mine")
        assert run(*argv, "--report", tmp_path / "precious.html") == 2
        assert "precious.html exists: choose another name" in capsys.readouterr().err
        assert (tmp_path / "precious.html").read_text() == "mine"
        assert run(*argv, "--report", tmp_path / "first.html") == 0
        assert not (tmp_path / "out.csv.part").exists()

    def test_a_damaged_table_is_filled_again(self, data, tmp_path, monkeypatch):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
        with monkeypatch.context() as patch:
            patch.setattr(job_module, "_remove", lambda *given: None)
            assert run(*argv) == 0
        whole = (tmp_path / "out.csv").read_bytes()
        (tmp_path / "out.csv.part" / "table-0" / "0").write_bytes(whole[:-1] + b"X")
        assert run(*argv) == 0
        assert (tmp_path / "out.csv").read_bytes() == whole

    def test_a_model_that_stands_in_for_itself(self, data, tmp_path, monkeypatch):
        """As a kill while it was replaced leaves it; what it holds makes the job, too."""
        model = tmp_path / "model"
        for place, seed in ((model, 0), (tmp_path / "other", 1)):
            assert run("fit", data, "-o", place, "--effort", "fast", "--seed", seed) == 0
        found = []
        for now in (model, tmp_path / "other"):
            os.replace(now, disk.replaced_of(model))
            disk.partial_of(model).mkdir(exist_ok=True)
            asked = Namespace(**OPTIONS, data=[str(data)], model=str(model))
            found.append(identity_of("impute", asked)["model"])
            shutil.rmtree(disk.replaced_of(model))
        assert [len(own) for own in found] == [2, 2]
        assert found[0] != found[1]

    def test_a_damaged_checkpoint_is_named(self, data, tmp_path, monkeypatch, capsys):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
        with monkeypatch.context() as patch:
            patch.setattr(FlowImputer, "transform", interrupt)
            assert run(*argv) == 130
        checkpoint = tmp_path / "out.csv.part" / "fit.safetensors"
        checkpoint.write_bytes(b"nothing")
        assert run(*argv) == 2
        assert "fit.safetensors is not a checkpoint, or is damaged" in capsys.readouterr().err
        assert checkpoint.exists()

    def test_interrupted_while_reading(self, data, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(command, "read_tables", interrupt)
        assert run("impute", data, "-o", tmp_path / "out.csv") == 130
        assert capsys.readouterr().err == "plmcmc: interrupted\n"
        assert os.listdir(tmp_path) == ["data.csv"]

    def test_what_is_written_of_a_job(self, data, tmp_path, monkeypatch):
        monkeypatch.setattr(FlowImputer, "transform", interrupt)
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--na-values", "x", "--flag", "f")
        assert run(*argv) == 130
        job = json.loads((tmp_path / "out.csv.part" / "job.json").read_text())
        assert job["data"][0][0] == "data.csv"
        assert (job["seed"], job["effort"], job["flag"]) == (0, "default", "f")


class TestFit:
    def test_interrupted(self, data, tmp_path, monkeypatch, capsys):
        argv = ("fit", data, "-o", tmp_path / "model", "--effort", "fast")
        with monkeypatch.context() as patch:
            patch.setattr(FlowImputer, "save", interrupt)
            assert run(*argv) == 130
        assert "model.part keeps the fitting progress" in capsys.readouterr().err
        done = count_steps(monkeypatch)
        assert run(*argv) == 0
        assert done == []
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "model"]

    def test_killed_after_the_model_was_written(self, data, tmp_path, monkeypatch, capsys):
        argv = ("fit", data, "-o", tmp_path / "model", "--effort", "fast")
        with monkeypatch.context() as patch:
            # What a kill leaves: the model in its place, and all that was kept.
            patch.setattr(job_module, "_remove", lambda *given: None)
            assert run(*argv) == 0
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "model", "model.part"]
        before = (tmp_path / "model" / "weights.safetensors").read_bytes()
        assert run(*argv, "--seed", 1) == 2
        assert "differences: seed" in capsys.readouterr().err
        assert (tmp_path / "model" / "weights.safetensors").read_bytes() == before
        done = count_steps(monkeypatch)
        assert run(*argv) == 0
        assert done == []
        assert (tmp_path / "model" / "weights.safetensors").read_bytes() == before
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "model"]
        # Done is done: a model that is there is not written over.
        assert run(*argv) == 2
        assert "model exists" in capsys.readouterr().err

    def test_killed_while_what_was_kept_was_removed(self, data, tmp_path, capsys):
        (tmp_path / "model.part").mkdir()
        (tmp_path / "model.part" / "fit.safetensors").write_bytes(b"the rest of an old job")
        (tmp_path / "model.part" / ".table-0.partial").mkdir()
        assert run("fit", data, "-o", tmp_path / "model", "--effort", "fast") == 0
        assert "Resuming" not in capsys.readouterr().out
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "model"]

    def test_killed_between_its_end_and_the_last_of_what_it_kept(self, data, tmp_path, capsys):
        argv = ("fit", data, "-o", tmp_path / "model", "--effort", "fast")
        assert run(*argv) == 0
        (tmp_path / ".model.part.partial").mkdir()
        (tmp_path / ".model.part.partial" / "fit.safetensors").write_bytes(b"not yet removed")
        assert run(*argv) == 2
        assert "model exists" in capsys.readouterr().err
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "model"]

    def test_a_full_disk_keeps_the_last_checkpoint(self, data, tmp_path, monkeypatch, capsys):
        argv = ("fit", data, "-o", tmp_path / "model", "--effort", "fast")
        with monkeypatch.context() as patch:
            write, full = disk._write, OSError(errno.ENOSPC, "No space left on device")

            def filling(path, *given):
                if path.name == "weights.safetensors":
                    raise full
                write(path, *given)

            patch.setattr(disk, "_write", filling)
            assert run(*argv) == 2
        told = capsys.readouterr().err
        assert "model could not be written (No space left on device): make room there" in told
        assert "model.part keeps the fitting progress" in told
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "model.part"]
        done = count_steps(monkeypatch)
        assert run(*argv) == 0
        assert done == []


def test_what_somebody_puts_there_meanwhile_stays(data, tmp_path, monkeypatch, capsys):
    own, place = command._done, tmp_path / "out.csv"
    argv = ("impute", data, "-o", place, "--effort", "fast")

    def meanwhile(*given):
        done = own(*given)
        place.write_text("precious")
        return done

    monkeypatch.setattr(command, "_done", meanwhile)
    assert run(*argv) == 2
    assert "out.csv exists: choose another name, or pass --overwrite" in capsys.readouterr().err
    assert place.read_text() == "precious"
    monkeypatch.setattr(command, "_done", own)
    # Nor does the same command take it for its own; with it out of the way, nothing is done twice.
    assert run(*argv) == 2
    place.unlink()
    monkeypatch.setattr(FlowImputer, "fit", lambda *given: pytest.fail("fitted again"))
    assert run(*argv) == 0
    assert place.exists()


def test_a_report_may_not_lie_in_what_goes_with_the_job(data, tmp_path, capsys):
    place = tmp_path / "out.csv"
    argv = ("impute", data, "-o", place, "--report", tmp_path / "out.csv.part" / "page.html")
    assert run(*argv) == 2
    assert (
        "out.csv.part, which holds the command's progress while it runs" in capsys.readouterr().err
    )
    assert not place.exists()


def test_a_model_that_appears_meanwhile_stays(data, tmp_path, monkeypatch, capsys):
    own, place = fit_command.fitted, tmp_path / "model"

    def meanwhile(*given, **options):
        learned = own(*given, **options)
        learned.save(place)
        return learned

    monkeypatch.setattr(fit_command, "fitted", meanwhile)
    for _ in range(2):
        assert run("fit", data, "-o", place, "--effort", "fast") == 2
        assert "model exists: choose another name, or pass --overwrite" in capsys.readouterr().err
