"""Few rows for many columns: error and coverage beside what the truth itself would allow.

    python benchmarks/wide.py --shapes 150x61 150x120 400x200

Factors and noise make the columns; a quarter of the values is hidden. The oracle knows the
covariance. `fast`, one thread.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
import torch

from plmcmc import FlowImputer

NOISE, HIDDEN, DRAWS = 0.5, 0.25, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["300x24", "150x61", "150x120", "400x200"])
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for shape in parser.parse_args().shapes:
        rows, columns = map(int, shape.split("x"))
        print(json.dumps({"shape": shape} | measured(rows, columns)), flush=True)


def measured(rows: int, columns: int) -> dict[str, float]:
    """Return the scores of one table."""
    factors = max(4, round(columns / 25))
    rng = np.random.default_rng(0)
    loads = rng.normal(size=(factors, columns)) / np.sqrt(factors)
    truth = rng.normal(size=(rows, factors)) @ loads + NOISE * rng.normal(size=(rows, columns))
    missing = np.random.default_rng(1).random(truth.shape) < HIDDEN
    table = np.where(missing, np.nan, truth)
    began = time.process_time()
    imputer = FlowImputer("fast", random_state=0, progress=False).fit(table)
    learned = time.process_time() - began
    low, high = imputer.interval(table, 0.9, draws=DRAWS)
    inside = (truth >= low) & (truth <= high)
    best = told(loads.T @ loads + NOISE**2 * np.eye(columns), truth, missing)
    return {
        "NMSE": error(imputer.transform(table), truth, missing),
        "oracle": error(best, truth, missing),
        "coverage of 90%": round(float(inside[missing].mean()), 3),
        "CPU seconds to learn": round(learned, 1),
    }


def told(covariance: np.ndarray, truth: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return the conditional means under the truth."""
    filled = truth.copy()
    for row, holes in zip(filled, missing, strict=True):
        gain = np.linalg.solve(covariance[np.ix_(~holes, ~holes)], covariance[~holes][:, holes])
        row[holes] = row[~holes] @ gain
    return filled


def error(filled: np.ndarray, truth: np.ndarray, missing: np.ndarray) -> float:
    """Return the squared error in variances of the values."""
    return round(float(np.mean((filled - truth)[missing] ** 2) / truth.var()), 3)


if __name__ == "__main__":
    main()
