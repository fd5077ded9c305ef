"""Tables that nothing was tuned on: scikit-learn's, and made-up ones; ours beside Gaussian EM.

    python benchmarks/tables.py --masks 0 1

A third of the values is hidden. The same scores, and the same tables of means, as `uci.py`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
import torch
import uci
from sklearn import datasets

RATE = 1 / 3
ROWS = 800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--masks", nargs="+", type=int, default=[0, 1])
    default = ["plmcmc", "Gaussian EM", "missForest", "IterativeImputer"]
    parser.add_argument("--methods", nargs="+", default=default, choices=uci.METHODS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    lines, uci.SETS = [], tuple(arguments.tables)
    for name in arguments.tables:
        for mask in arguments.masks:
            rng = np.random.default_rng(mask)
            truth = TABLES[name](rng)
            missing = rng.random(truth.shape) < RATE
            table = np.where(missing, np.nan, truth)
            for method in arguments.methods:
                began = time.process_time()
                filled, drawn = uci.METHODS[method](table, mask)
                line = {"set": name, "mask": mask, "method": method}
                line |= uci.scores(truth, missing, filled, drawn)
                line["CPU seconds"] = round(time.process_time() - began, 1)
                if uci.CONVERGED:
                    line["R-hat under 1.1"] = uci.CONVERGED.pop()
                print(json.dumps(line), flush=True)
                lines.append(line)
    uci.report(lines)


def gaussian(rng):
    """Return correlated normals: nothing to find beyond a Gaussian."""
    root = rng.normal(size=(6, 6))
    return rng.normal(size=(ROWS, 6)) @ root


def ring(rng):
    """Return two columns on a ring, and two that follow from them."""
    angle = rng.uniform(0, 2 * np.pi, ROWS)
    radius = 1 + 0.1 * rng.normal(size=ROWS)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    return np.stack([x, y, x * y, x + 0.3 * rng.normal(size=ROWS)], 1)


def clusters(rng):
    """Return three clusters of different shapes."""
    centres, roots = 3 * rng.normal(size=(3, 5)), rng.normal(size=(3, 5, 5)) / 2
    which = rng.integers(3, size=ROWS)
    return centres[which] + np.einsum("nij,nj->ni", roots[which], rng.normal(size=(ROWS, 5)))


def heavy(rng):
    """Return heavy tails and log-normals that hang together."""
    shared = rng.standard_t(3, size=(ROWS, 1))
    own = rng.standard_t(3, size=(ROWS, 3))
    return np.concatenate(
        [shared + own, np.exp(0.7 * shared + 0.5 * rng.normal(size=(ROWS, 2)))], 1
    )


def friedman(rng):
    """Return a smooth function of ten columns, five of which mean nothing."""
    x, y = datasets.make_friedman1(ROWS, random_state=int(rng.integers(2**31)))
    return np.column_stack([x, y])


TABLES = {
    "iris": lambda rng: datasets.load_iris(return_X_y=True)[0],
    "wine": lambda rng: datasets.load_wine(return_X_y=True)[0],
    "diabetes": lambda rng: datasets.load_diabetes(scaled=False, return_X_y=True)[0],
    "breast, ten": lambda rng: datasets.load_breast_cancer(return_X_y=True)[0][:, :10],
    "gaussian": gaussian,
    "ring": ring,
    "clusters": clusters,
    "heavy": heavy,
    "friedman": friedman,
}

if __name__ == "__main__":
    main()
