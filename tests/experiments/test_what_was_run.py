"""Reports say what was run, how far it is from the paper's, and where numbers are from."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from plmcmc.experiments import CATALOGUE, SCALES, experiment_of, reproduce
from plmcmc.experiments.ledger import LINES
from plmcmc.experiments.provenance import made_on, where_from
from plmcmc.experiments.report import _shown, differing


@dataclass(frozen=True)
class Inner:
    width: int = 8
    effort: Any = "default"


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default=Inner())
    rate: float = 0.5


def run(path):
    return reproduce.reproduce(
        "decisions", "smoke", output=path, progress=False, say=lambda words: None
    )


def test_a_report_says_what_was_run_and_by_what(tmp_path):
    report = run(tmp_path)
    assert "## What was run\n\n**This only shows that the code runs" in report
    assert "| proposals | 30 | 2000 |" in report
    assert "| task.flow.width | 16 | 1000 |" in report
    assert "| perturb |" not in report
    assert report.index("What was run") < report.index("## Results") < report.index("How we")
    assert "## How we read the paper (at full scale)" in report
    line = json.loads((tmp_path / "decisions-smoke" / LINES).read_text().splitlines()[-1])
    assert line["made"].keys() == made_on("cpu").keys() == {"plmcmc", "torch", "device", "date"}
    assert line["made"]["device"] == "cpu"
    parts = "replication 0; replication 1"
    assert report.endswith(f"| 2: {parts} | {' | '.join(line['made'].values())} |\n")
    assert "NaN" not in json.dumps(line)


@pytest.mark.parametrize("name", CATALOGUE)
def test_settings_beside_those_of_full(name):
    told = {
        scale: list(
            differing(asdict(experiment_of(name, scale)), asdict(experiment_of(name, "full")))
        )
        for scale in SCALES
    }
    assert told["smoke"]
    assert not told["full"]


def test_settings_within_settings():
    other = Outer(Inner(effort=Inner(2)))
    assert list(differing(asdict(other), asdict(Outer()))) == [
        ("inner.effort", {"width": 2, "effort": "default"}, "default")
    ]
    assert list(differing(asdict(Outer(Inner(4), 0.25)), asdict(Outer()))) == [
        ("inner.width", 4, 8),
        ("rate", 0.25, 0.5),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "default"), ((), "none"), ([], "none"), ((1, 0.25), "1, 0.25"), (0, "0"), ("", "")],
)
def test_settings_in_words(value, words):
    assert _shown(value) == words


def test_parts_that_were_made_alike_have_a_line():
    one = {"plmcmc": "1", "torch": "2", "device": "cpu", "date": "2026-11-18"}
    made = {f"part {number}": one for number in range(5)} | {
        "old": {},
        "else": one | {"torch": "3"},
    }
    lines = where_from(made).splitlines()[2:]
    assert lines == [
        "| 5: part 0; part 1; part 2; and 2 more | 1 | 2 | cpu | 2026-11-18 |",
        "| 1: old | not noted | not noted | not noted | not noted |",
        "| 1: else | 1 | 3 | cpu | 2026-11-18 |",
    ]
