"""Small tables of every kind, and efforts that only tests would call so."""

import numpy as np
import pandas as pd

from plmcmc.imputation import Effort
from plmcmc.training.tables.settings import TableTraining

TINY = Effort(
    members=2,
    mixtures=0,
    couplings=2,
    width=8,
    training=TableTraining(updates=20, batch=32),
    chains=1,
    burn_in=4,
    states=9,
)
# For what does not depend on how good a model is.
LEAST = Effort(
    members=1,
    mixtures=0,
    couplings=2,
    width=4,
    training=TableTraining(updates=2, batch=32),
    chains=2,
    burn_in=2,
    states=3,
)


def mixed(rows=80, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.normal(size=rows)
    return pd.DataFrame(
        {
            "size": size,
            "count": pd.array(rng.poisson(np.exp(0.5 * size + 1)), dtype="Int64"),
            "flag": pd.array(size + 0.5 * rng.normal(size=rows) > 0, dtype="boolean"),
            "grade": pd.Categorical(
                np.array(["low", "mid", "high"])[np.digitize(size, [-0.5, 0.5])],
                categories=["low", "mid", "high"],
                ordered=True,
            ),
            "colour": rng.choice(["red", "green", "blue"], rows).astype(object),
            "price": (10 * size + 50).astype(np.float32),
        },
        index=pd.Index([f"r{i}" for i in range(rows)], name="id"),
    )


def with_holes(frame, seed=1, share=0.3):
    holes = np.random.default_rng(seed).random(frame.shape) < share
    return frame.mask(holes), holes
