"""Parts of experiments side by side: what cannot be run is refused before anything starts."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "side_by_side.py"


def run(output, *works, scale="smoke"):
    main = runpy.run_path(str(SCRIPT))["main"]
    return main(["-o", str(output), "--scale", scale, "--device", "cpu", *works])


@pytest.mark.parametrize(
    ("works", "scale", "words"),
    [
        (["table2:mean", "table2 + tabel1:I.M."], "smoke", "unknown experiment 'tabel1': choose"),
        (["table2:mean"], "huge", "invalid choice: 'huge'"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_starts(
    works, scale, words, tmp_path, capsys
):
    with pytest.raises(SystemExit) as ended:
        run(tmp_path / "out", *works, scale=scale)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_parts_are_run_and_their_numbers_merged(tmp_path, capsys):
    assert run(tmp_path, "table2:mask 0, mean", "table2:nothing of that name") == 1
    first, second, merged = capsys.readouterr().out.splitlines()
    assert first == "table2:mask 0, mean: done"
    assert second.startswith("table2:nothing of that name: failed (2); plmcmc: no part of table2")
    assert merged == "table2-smoke: 1 parts"
    assert "; 1 of " in (tmp_path / "table2-smoke" / "report.md").read_text()
