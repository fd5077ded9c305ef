"""`plmcmc doctor`: what it shows, and what its exit code says."""

import getpass
import json
import platform
import socket

import pytest

import plmcmc
from plmcmc import diagnostics
from plmcmc.cli import machine as module
from plmcmc.diagnostics import Finding, exactness
from table_files import run

GOOD = Finding("closed form", True, "all moments as they should be", 0.1)
BAD = Finding("quadrature", False, "p-value 0", 0.2)


@pytest.fixture
def quick(monkeypatch):
    """Findings that take no time, to be changed by a test."""
    found = [GOOD]
    monkeypatch.setattr(diagnostics, "self_test", lambda device: found)
    return found


def test_all_is_well_on_this_machine(capsys, monkeypatch):
    monkeypatch.setattr(exactness, "CHAINS", 100)
    monkeypatch.setattr(exactness, "ROWS", 100)
    assert run("doctor", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["self_test"]["passed"]
    assert [own["name"] for own in told["self_test"]["findings"]] == [
        "closed form",
        "quadrature",
        "invariance",
    ]
    assert sum(own["seconds"] for own in told["self_test"]["findings"]) < 60


def test_what_is_shown(quick, capsys):
    assert run("doctor") == 0
    told = capsys.readouterr().out
    for words in (f"plmcmc {plmcmc.__version__}", platform.python_version(), "torch", "cpu"):
        # Once for the person, once to be pasted.
        assert told.count(words) >= 2
    assert "All tests passed." in told
    assert "ok    closed form" in told
    report = told.split("What to report")[1]
    assert report.count("```") == 2
    assert "OMP_NUM_THREADS" in report


def test_a_failure_is_exit_code_1_and_told(quick, capsys):
    quick.append(BAD)
    assert run("doctor") == 1
    told = capsys.readouterr().out
    assert "FAIL  quadrature" in told.split("What to report")[1]
    assert "cannot be trusted" in told
    assert "All tests passed" not in told
    assert run("doctor", "--json") == 1
    assert json.loads(capsys.readouterr().out)["self_test"]["passed"] is False


def test_nothing_of_whose_machine_it_is(quick, capsys):
    run("doctor")
    told = capsys.readouterr().out.lower()
    assert socket.gethostname().lower() not in told
    assert f"/{getpass.getuser()}/" not in told


def test_a_device_that_is_not_there(quick, capsys):
    assert run("doctor", "--device", "nowhere") == 2
    assert "--device 'nowhere' cannot be used" in capsys.readouterr().err


def test_memory_of_a_container_counts(quick, tmp_path, monkeypatch, capsys):
    (tmp_path / "memory.max").write_text(str(2**30))
    (tmp_path / "memory.current").write_text(str(2**29))
    monkeypatch.setattr(module, "_CONTAINER", tmp_path)
    run("doctor")
    assert "0.5 GB free of 1.0 GB" in capsys.readouterr().out
    (tmp_path / "memory.max").write_text("max\n")
    run("doctor")
    assert "free of 1.0 GB" not in capsys.readouterr().out


def test_where_the_system_does_not_tell(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "_CONTAINER", tmp_path)
    monkeypatch.setattr(module, "memory", lambda: (None, None))
    assert run("doctor") == 0
    assert "unknown free of unknown" in capsys.readouterr().out
