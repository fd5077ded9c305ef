"""The command line: quick to answer, and errors in words."""

import subprocess
import sys
import types

import pytest

import plmcmc
from plmcmc.cli import main

HEAVY = ("torch", "numpy", "pandas", "matplotlib", "scipy", "sklearn", "rich", "arviz")


def loaded_by(code):
    """Which heavy packages a fresh Python has loaded after running this."""
    watch = f"import sys\n{code}\nprint('loaded:', *sorted(set({HEAVY}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=True)
    return ran.stdout.rsplit("loaded:", 1)[1].split()


class TestImports:
    @pytest.mark.parametrize(
        "code",
        [
            "import plmcmc; dir(plmcmc)",
            "import plmcmc; plmcmc.__version__",
            "from plmcmc.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
            "from plmcmc.cli import main\ntry: main(['demo', '--help'])\nexcept SystemExit: pass",
            "from plmcmc.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass",
        ],
    )
    def test_nothing_heavy_is_loaded(self, code):
        assert loaded_by(code) == []

    def test_until_a_name_is_used(self):
        """Negative control."""
        assert "torch" in loaded_by("import plmcmc; plmcmc.condition")

    def test_every_public_name_is_there(self):
        for name in plmcmc.__all__:
            assert getattr(plmcmc, name) is not None
            assert name in dir(plmcmc)

    def test_no_other_name_is(self):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = plmcmc.nothing


class TestAnswers:
    def test_help(self, capsys):
        with pytest.raises(SystemExit) as end:
            main(["--help"])
        assert end.value.code == 0
        assert "demo" in capsys.readouterr().out

    def test_version(self, capsys):
        with pytest.raises(SystemExit) as end:
            main(["--version"])
        assert end.value.code == 0
        assert capsys.readouterr().out.strip() == f"plmcmc {plmcmc.__version__}"

    @pytest.mark.parametrize("argv", [[], ["nothing"], ["demo", "--seed", "x"], ["demo", "--what"]])
    def test_what_it_does_not_know(self, argv, capsys):
        with pytest.raises(SystemExit) as end:
            main(argv)
        assert end.value.code == 2
        assert "usage: plmcmc" in capsys.readouterr().err

    def test_as_a_module(self):
        ran = subprocess.run(
            [sys.executable, "-m", "plmcmc", "--version"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == f"plmcmc {plmcmc.__version__}"


class TestErrors:
    """A command's errors are for the person who typed it."""

    def run_with(self, monkeypatch, demo):
        stub = types.ModuleType("plmcmc.cli.demo")
        stub.demo = demo
        monkeypatch.setitem(sys.modules, "plmcmc.cli.demo", stub)
        return main(["demo", "--seed", "3", "-o", "somewhere"])

    def test_success(self, monkeypatch):
        asked = []
        assert self.run_with(monkeypatch, lambda *arguments: asked.append(arguments)) == 0
        assert asked == [("somewhere", 3)]

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("row 3 is empty"),
            OSError("row 3 is empty"),
            plmcmc.BrokenFlow("row 3 is empty"),
        ],
    )
    def test_input_it_cannot_work_with(self, error, monkeypatch, capsys):
        def fail(*_):
            raise error

        assert self.run_with(monkeypatch, fail) == 2
        written = capsys.readouterr()
        assert written.err == "plmcmc: row 3 is empty\n"
        assert written.out == ""

    def test_interrupted(self, monkeypatch, capsys):
        def interrupt(*_):
            raise KeyboardInterrupt

        assert self.run_with(monkeypatch, interrupt) == 130
        assert capsys.readouterr().err == "plmcmc: interrupted\n"

    def test_a_bug_is_not_hidden(self, monkeypatch):
        def bug(*_):
            raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"):
            self.run_with(monkeypatch, bug)


@pytest.mark.parametrize(("rank", "waits", "whose"), [("0", 0, ""), ("1", 1, "process 1: ")])
def test_of_several_processes_the_leader_speaks_first(rank, waits, whose, monkeypatch, capsys):
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "some")
    monkeypatch.setenv("RANK", rank)
    assert main(["info", ""]) == 2
    assert len(waited) == waits
    assert capsys.readouterr().err.startswith(f"plmcmc: {whose}--model: expected")


def test_a_rank_of_others_than_torchrun_is_none(monkeypatch, capsys):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("RANK", "1")
    assert main(["info", ""]) == 2
    assert capsys.readouterr().err.startswith("plmcmc: --model: expected")
