"""What test_team.py lets torchrun start: processes that learn one table together.

    torchrun --standalone --nproc-per-node 2 tests/training/tables/team_of_two.py DIRECTORY

Every process writes its weights there: of a run that goes through, and of one that was stopped
halfway and resumed. `half.safetensors` is what the second one was resumed from.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from test_online_em import ROUND, training

from plmcmc.chains import run
from plmcmc.rng import Streams, generator
from plmcmc.training.tables.online_em import ALONE, TableEM
from plmcmc.training.tables.team import Team, torchrun_team
from plmcmc.training.tables.team_checkpoint import TeamCheckpoint

HALF, WHOLE = 10, 20


def learned(path: Path, rounds: int, team: Team = ALONE) -> TableEM:
    """Learn for some rounds, from a checkpoint if there is one."""
    em = training(WHOLE * ROUND, team=team)
    run(
        em,
        em.start(Streams([generator(0, "start")], [100 * em.chains * 2])),
        Streams([generator(0, "training")], [1]),
        rounds,
        checkpoint=TeamCheckpoint(path, {"test": "team"}, 1, training=em),
    )
    return em


def weights_of(em: TableEM) -> np.ndarray:
    """Return all averaged weights in a row."""
    return torch.cat([part.flatten() for part in em.averaged.state_dict().values()]).numpy()


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    with torchrun_team("cpu") as own:
        np.save(place / f"through-{own.rank}.npy", weights_of(learned(place / "one", WHOLE, own)))
        learned(place / "two", HALF, own)
        if own.leads:
            shutil.copy(place / "two", place / "half.safetensors")
        own.wait()
        np.save(place / f"resumed-{own.rank}.npy", weights_of(learned(place / "two", WHOLE, own)))
