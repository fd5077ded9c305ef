"""Tables are filled part by part: whoever has some of the parts fills them alike."""

from copy import copy

import numpy as np
import pytest

from plmcmc import FlowImputer, rng
from plmcmc.rng import part_seed, parts_of
from toy_tables import TINY, mixed, with_holes

PART = 64


@pytest.fixture(scope="module")
def fitted():
    frame, _ = with_holes(mixed(150))
    return FlowImputer(TINY, random_state=3, progress=False).fit(frame), frame


def filled(imputer, frame, ask):
    return {
        "mean": lambda: imputer.transform(frame),
        "draws": lambda: imputer.complete(frame, 2)[1],
    }[ask]()


@pytest.mark.parametrize("ask", ["mean", "draws"])
def test_a_part_alone_gets_what_it_gets_in_the_table(ask, fitted, monkeypatch):
    monkeypatch.setattr(rng, "PART_ROWS", PART)
    imputer, frame = fitted
    whole = filled(imputer, frame, ask)
    for number, rows in enumerate(parts_of(len(frame))):
        own = copy(imputer)
        own.seed_ = part_seed(imputer.seed_, number)
        alone = filled(own, frame.iloc[rows], ask)
        assert alone.equals(whole.iloc[rows])
    # Negative control: by the seed of another part it would get something else.
    own.seed_ = imputer.seed_
    assert not filled(own, frame.iloc[rows], ask).equals(whole.iloc[rows])


def test_what_is_told_of_convergence_is_of_all_parts(fitted, monkeypatch):
    monkeypatch.setattr(rng, "PART_ROWS", PART)
    imputer, frame = fitted
    imputer.transform(frame)
    rows = np.flatnonzero(frame.isna().any(axis=1))
    assert imputer.convergence_.numbers.tolist() == rows.tolist()
    assert imputer.convergence_.stuck.shape == rows.shape


def test_parts_and_their_seeds(monkeypatch):
    monkeypatch.setattr(rng, "PART_ROWS", 4)
    assert parts_of(10) == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert parts_of(0) == []
    assert part_seed(7, 0) == 7
    seeds = {part_seed(7, part, file) for part in range(100) for file in range(20)}
    assert len(seeds) == 2000
