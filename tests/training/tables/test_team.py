"""Processes that learn together: one flow, chains of all rows, and checkpoints for any team."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from team_of_two import HALF, WHOLE, learned, weights_of
from test_online_em import ROUND, bent, hidden, schema, training

from plmcmc.flows import log_prob
from plmcmc.imputation import FlowImputer
from plmcmc.training.tables.team import Team, torchrun_team

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Return where two processes have left their weights."""
    place = tmp_path_factory.mktemp("team")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    source = os.pathsep.join([str(HERE.parent), *sys.path])
    done = subprocess.run(
        [*command, "2", str(HERE / "team_of_two.py"), str(place)],
        check=False,
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return place


def weights(place, name):
    return [np.load(place / f"{name}-{rank}.npy") for rank in (0, 1)]


def fitness(em):
    """Return the mean log-likelihood of complete rows that nobody has learned from."""
    table, _ = hidden(bent(100))
    rows = schema(table).regions(bent(2000, seed=5)).low
    # Ends of continuous values are the values.
    scores = torch.as_tensor(rows, dtype=torch.float32).repeat_interleave(em.flow.members, 0)
    with torch.no_grad():
        return float(log_prob(em.averaged, scores).mean())


def test_weights_are_the_same_everywhere(together):
    np.testing.assert_array_equal(*weights(together, "through"))


def test_a_team_that_was_stopped_goes_on_to_the_same_bits(together):
    np.testing.assert_array_equal(weights(together, "through")[0], weights(together, "resumed")[0])


def test_a_team_learns_what_one_alone_learns(together, tmp_path):
    alone = learned(tmp_path / "alone", WHOLE)
    untrained = fitness(training(ROUND))
    gained = fitness(alone) - untrained
    team = training(ROUND)
    _put(weights(together, "through")[0], team)
    assert gained > 0.1
    # Other chains are moved at each update: more than half of the gain is common to all seeds.
    assert abs(fitness(team) - untrained - gained) < 0.5 * gained


def test_another_number_of_processes_goes_on(together, tmp_path):
    path = tmp_path / "half.safetensors"
    shutil.copy(together / "half.safetensors", path)
    halfway = learned(path, HALF)
    found = learned(path, WHOLE)
    assert not np.array_equal(weights_of(halfway), weights_of(found))
    assert fitness(found) > fitness(training(ROUND)) + 0.1


def _put(values, em):
    parts = list(em.averaged.state_dict().values())
    given = torch.as_tensor(values).split([part.numel() for part in parts])
    for part, own in zip(parts, given, strict=True):
        part.copy_(own.view_as(part))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_row_has_one_process(size):
    shares = [Team(rank, size).share(20) for rank in range(size)]
    assert [row for share in shares for row in share] == list(range(20))
    assert min(map(len, shares)) >= 20 // size


def test_one_alone_is_a_team():
    with torchrun_team("cpu") as team:
        assert team == Team(0, 1)
        assert team.leads


def test_learning_together_needs_a_group():
    with pytest.raises(ValueError, match="torchrun"):
        FlowImputer(distributed=True).fit(np.random.default_rng(0).normal(size=(20, 2)))


def test_a_process_without_rows_is_refused():
    with pytest.raises(ValueError, match="one row for each of 101 processes; got 100"):
        training(ROUND, team=Team(0, 101))
