"""Tests of one training, kept one by one: what was stopped goes on with those that are left."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from plmcmc.data import Mechanism
from plmcmc.disk import write
from plmcmc.experiments.digits.filler import Filler
from plmcmc.experiments.digits.judge import Judge

Scores = dict[str, float]


def kept_scores(
    path: Path, identity: str, seeds: Sequence[int], test: Callable[[int], Scores]
) -> dict[str, list[float]]:
    """Return every score of all tests, in the order of their seeds.

    Args:
        path: where tests are kept that are done.
        identity: all that they depend on beside their seeds. Those of another are run again.
        seeds: of the tests.
        test: runs one.
    """
    done = _read(path, identity)
    for seed in map(str, seeds):
        if seed not in done:
            done[seed] = test(int(seed))
            write(path, json.dumps({"of": identity, "tests": done}).encode())
    lines = [done[str(seed)] for seed in seeds]
    return {score: [line[score] for line in lines] for score in lines[0]}


def scored(filler: Filler, judge: Judge, hide: Mechanism, seed: int) -> Scores:
    """Return how good completions of the judge's digits are, and what else is known of them."""
    observed = hide(judge.truth, seed)
    completed = filler.complete(judge.truth, observed, seed)
    found: dict[str, list[float]] = {}
    for way, digits in completed.ways:
        for score, value in judge.scores(digits, observed).items():
            found.setdefault(f"{score}{way}", []).append(value)
    scores = {key: round(float(np.mean(values)), 6) for key, values in found.items()}
    return scores | dict(completed.told)


def _read(path: Path, identity: str) -> dict[str, Scores]:
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_bytes())
        return kept["tests"] if kept["of"] == identity else {}
    except (ValueError, KeyError, TypeError):
        # Ours are written whole: what else lies there is made again.
        return {}
