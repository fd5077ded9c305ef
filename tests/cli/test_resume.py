"""A real process, killed while it learns: the same command goes on, to the same bytes."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from plmcmc.imputation import EFFORTS
from plmcmc.tables.job import FIT
from plmcmc.training.tables.online_em import TableEM
from plmcmc.training.tables.settings import TableTraining
from table_files import run
from toy_tables import LEAST

pytestmark = pytest.mark.slow
# A checkpoint after the fourth; too few to be ended early.
ROUNDS = 6
LONGER = replace(LEAST, training=TableTraining(updates=50 * ROUNDS, batch=32))
PATIENCE_S = 120
# The same command in a process of its own, slow enough to be caught while it learns.
SLOWLY = """
import sys, time
from test_resume import LONGER
from plmcmc.cli import main
from plmcmc.imputation import EFFORTS
from plmcmc.training.tables.online_em import TableEM

EFFORTS["fast"] = LONGER
step = TableEM.step

def slow(*given):
    time.sleep(0.3)
    return step(*given)

TableEM.step = slow
sys.exit(main(sys.argv[1:]))
"""
# The same, killed when it has written half of its second checkpoint.
HALF_WRITTEN = """
import os, signal, sys
from test_resume import LONGER
from plmcmc import disk
from plmcmc.cli import main
from plmcmc.imputation import EFFORTS

EFFORTS["fast"] = LONGER
write, seen = disk._write, []

def half(path, content, *like):
    seen.extend([path] * ("fit.safetensors" in path.name))
    if len(seen) < 2:
        return write(path, content, *like)
    path.write_bytes(content[: len(content) // 2])
    os.kill(os.getpid(), signal.SIGKILL)

disk._write = half
sys.exit(main(sys.argv[1:]))
"""


def started(script, argv):
    """Run a command in a process of its own."""
    here, found = Path(__file__).parent, os.environ.get("PYTHONPATH", "")
    paths = os.pathsep.join([str(here), str(here.parent), found])
    words = [sys.executable, "-c", script, *map(str, argv)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths})


def killed(argv, part):
    """Run a command, kill it as soon as there is a checkpoint; return its exit code."""
    process = started(SLOWLY, argv)
    end = time.monotonic() + PATIENCE_S
    while not (part / "fit.safetensors").exists() and time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    return process.returncode


def steps_of(argv):
    """Run a command here; return how many rounds of learning it took."""
    done, step = [], TableEM.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "fast", LONGER)
        patch.setattr(TableEM, "step", lambda *given: done.append(1) or step(*given))
        assert run(*argv) == 0
    return len(done)


def test_impute(data, tmp_path, capfd):
    """Of Ctrl-C, `test_job.py` tells."""
    argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
    assert killed(argv, tmp_path / "out.csv.part") == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "out.csv.part"]
    assert 0 < steps_of(argv) < ROUNDS
    assert "Resuming from" in capfd.readouterr().out
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "out.csv"]
    assert steps_of(("impute", data, "-o", tmp_path / "whole.csv", "--effort", "fast")) == ROUNDS
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_fit_killed_while_it_writes_a_checkpoint(data, tmp_path):
    argv = ("fit", data, "-o", tmp_path / "model", "--effort", "fast")
    process = started(HALF_WRITTEN, argv)
    assert process.communicate(timeout=PATIENCE_S) == (None, b"")
    assert process.returncode == -signal.SIGKILL
    part = tmp_path / "model.part"
    half, good = ((part / name).stat().st_size for name in (".fit.safetensors.partial", FIT))
    assert 0 < half < good
    # From the one before, which was whole.
    assert steps_of(argv) == 2
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "model"]
    whole = ("fit", data, "-o", tmp_path / "whole", "--effort", "fast")
    assert steps_of(whole) == ROUNDS
    for name in ("config.json", "weights.safetensors"):
        found = (tmp_path / "model" / name).read_bytes()
        assert found == (tmp_path / "whole" / name).read_bytes()
