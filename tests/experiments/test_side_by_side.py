"""Parts of experiments side by side: what cannot be run is refused before anything starts."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "side_by_side.py"


def run(output, *works, scale="smoke"):
    asked = [sys.executable, str(SCRIPT), "-o", str(output), "--scale", scale, "--device", "cpu"]
    return subprocess.run([*asked, *works], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("works", "scale", "words"),
    [
        (["table2:mean", "table2 + tabel1:I.M."], "smoke", "unknown experiment 'tabel1': choose"),
        (["table2:mean"], "huge", "invalid choice: 'huge'"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_starts(works, scale, words, tmp_path):
    done = run(tmp_path / "out", *works, scale=scale)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


def test_parts_are_run_and_their_numbers_merged(tmp_path):
    done = run(tmp_path, "table2:mask 0, mean", "table2:nothing of that name")
    assert done.returncode == 1
    first, second, merged = done.stdout.splitlines()
    assert first == "table2:mask 0, mean: done"
    assert second.startswith("table2:nothing of that name: failed (2); plmcmc: no part of table2")
    assert merged == "table2-smoke: 1 parts"
    assert "; 1 of " in (tmp_path / "table2-smoke" / "report.md").read_text()
