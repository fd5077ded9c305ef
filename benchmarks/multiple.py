"""Is multiple imputation proper? Coverage of pooled 95% intervals of regression coefficients.

    python benchmarks/multiple.py --replicates 300 --effort fast

Rows from a known regression; values missing at random, by what is seen. Each replicate fits an
imputer, completes the table `m` times, regresses in each, and pools by Rubin's rules. Beside it:
the same tables without holes, rows without holes only, and Gaussian draws that leave the
uncertainty of the model out.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
import torch
from scipy.stats import t as student

import plmcmc
from plmcmc.baselines import GaussianImputer

TRUTH = np.array([1.0, 0.5, -0.5, 0.8])
NAMES = ("intercept", "x1", "x2", "group")


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    hits: dict[str, list] = {}
    began = time.process_time()
    for replicate in range(arguments.first, arguments.first + arguments.replicates):
        rng = np.random.default_rng(replicate)
        whole = rows(arguments.rows, rng)
        holed = with_holes(whole, rng)
        for method, inside in covered(whole, holed, arguments, replicate).items():
            hits.setdefault(method, []).append(inside)
        if (replicate + 1) % 10 == 0:
            report(hits, time.process_time() - began)
    report(hits, time.process_time() - began)


def rows(count, rng):
    """Return x1, x2, group (0 or 1) and y."""
    x1 = rng.normal(size=count)
    x2 = 0.5 * x1 + rng.normal(size=count)
    group = (0.7 * x2 + rng.normal(size=count) > 0).astype(float)
    y = TRUTH @ np.stack([np.ones(count), x1, x2, group]) + rng.normal(size=count)
    return np.stack([x1, x2, group, y], 1)


def with_holes(whole, rng):
    """Hide x2 and the group by y, and y by x1, about 30% of each; x1 is always seen."""
    x1, _, _, y = whole.T
    chance = 1 / (1 + np.exp(-np.stack([0.8 * (y - 1) - 1, -0.8 * (y - 1) - 1, x1 - 1])))
    holed = whole.copy()
    # Whoever loses y keeps the others, which were hidden by it: missing at random.
    lost = rng.random(len(whole)) < chance[2]
    holed[lost, 3] = np.nan
    for column, share in ((1, chance[0]), (2, chance[1])):
        holed[(rng.random(len(whole)) < share) & ~lost, column] = np.nan
    return holed


def regression(table):
    """Return coefficients of y and their squared standard errors."""
    design = np.column_stack([np.ones(len(table)), table[:, :3]])
    gram = np.linalg.inv(design.T @ design)
    found = gram @ design.T @ table[:, 3]
    residual = table[:, 3] - design @ found
    return found, residual @ residual / (len(table) - 4) * np.diag(gram)


def covered(whole, holed, arguments, seed):
    """Return, method by method, which coefficients lie in their interval."""
    complete = holed[~np.isnan(holed).any(1)]
    types = {"2": "boolean"}
    imputer = plmcmc.FlowImputer(arguments.effort, types=types, random_state=seed, progress=False)
    tables = imputer.fit(holed).complete(holed, arguments.m)
    found = {
        "no holes": alone(whole),
        "complete rows": alone(complete),
        "plmcmc": pooled(tables, len(whole)),
        "plmcmc, one model": pooled(list(one_model(imputer, holed, arguments.m)), len(whole)),
    }
    drawn = GaussianImputer().sample(holed, arguments.m, seed)
    return found | {"Gaussian EM, one model": pooled(list(drawn), len(whole))}


def one_model(imputer, holed, count):
    """Return completed tables from the fitted model alone; `sample` has others, of few rows."""
    return imputer._drawing.spread(imputer._opened(holed)[1], count).codes


def alone(table):
    estimate, variance = regression(table)
    wide = student.ppf(0.975, len(table) - 4) * np.sqrt(variance)
    return np.abs(estimate - TRUTH) <= wide


def pooled(tables, count):
    estimates, variances = map(np.array, zip(*map(regression, tables), strict=True))
    found = plmcmc.pool(estimates, variances, complete_df=count - 4)
    return (found.low <= TRUTH) & (found.high >= TRUTH)


def report(hits, seconds):
    for method, inside in hits.items():
        share = np.mean(inside, 0)
        line = {"method": method, "replicates": len(inside)}
        line |= {name: round(float(s), 3) for name, s in zip(NAMES, share, strict=True)}
        line["all"] = round(float(share.mean()), 4)
        print(json.dumps(line), flush=True)
    print(json.dumps({"CPU seconds": round(seconds)}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first replicate's seed")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--m", type=int, default=20)
    parser.add_argument("--effort", default="default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
