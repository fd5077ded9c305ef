"""Do intervals cover in small tables? With the model's uncertainty, and without.

    python benchmarks/small.py --rows 60 --replicates 30 --data DIR/uci
    python benchmarks/small.py --tables levels-3 levels-20 --rows 60

A quarter of the values is hidden. In each replicate one imputer is fitted, and 200 draws of every
hidden value are taken in two ways: by `sample`, whose draws come from models that might as well
have been learned, and from the fitted model alone. Coverage of 90% intervals, fair CRPS in
deviations of the columns, and the share of hidden values beyond all that were seen of their column:
no interval reaches those.

Of a boolean and of levels without an order: the Brier score, how often rare levels (seen in less
than a tenth of the rows, less often than in draws of all alike) are drawn and are true, and how far
frequencies of levels are off: half the sum of differences from those among the hidden values.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import norm
from sklearn import datasets

import plmcmc
from plmcmc.imputation import Effort
from plmcmc.statistics import coverage, crps, interval
from plmcmc.training.tables.settings import TableTraining

RATE, LEVEL, DRAWS = 0.25, 0.9, 200
# Levels seen less often are rare; frequencies of levels fall with their number to this power.
RARE, POWER = 0.1, 2.0
# Of tables as small as these the Gaussian is hardly improved on.
SHORT = Effort(
    members=2,
    mixtures=0,
    couplings=2,
    width=16,
    training=TableTraining(updates=50),
    chains=1,
    burn_in=8,
    states=12,
)
OURS, ONE = "sample", "one model"


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    effort = SHORT if arguments.effort == "short" else arguments.effort
    for name in arguments.tables:
        make = TABLES.get(name) or partial(some, uci(arguments.data, name))
        for rows in arguments.rows:
            lines = [
                replicate(make, rows, number, effort)
                for number in range(arguments.first, arguments.first + arguments.replicates)
            ]
            report(name, rows, lines)


def replicate(make, rows, seed, effort):
    """Return what each way of drawing scores on one table."""
    rng = np.random.default_rng([seed, rows])
    truth, types = made if isinstance(made := make(rows, rng), tuple) else (made, {})
    missing = rng.random(truth.shape) < RATE
    table = np.where(missing, np.nan, truth)
    began = time.process_time()
    imputer = plmcmc.FlowImputer(effort, types=types, random_state=seed, progress=False).fit(table)
    line: dict[str | tuple[str, str], float] = {"fit": time.process_time() - began}
    ways = {
        OURS: partial(imputer.sample, table, DRAWS),
        ONE: lambda: imputer._drawing.spread(imputer._opened(table)[1], DRAWS).codes,
    }
    low, high = np.nanmin(table, 0), np.nanmax(table, 0)
    line["beyond"] = ((truth < low) | (truth > high))[missing].mean()
    for way, draw in ways.items():
        began = time.process_time()
        drawn = draw()
        line[way, "seconds"] = time.process_time() - began
        scored = numbers(truth, missing, drawn, imputer.layout_) | levels(
            truth, missing, drawn, imputer.layout_
        )
        line |= {(way, name): score for name, score in scored.items()}
    return line


def numbers(truth, missing, drawn, layout):
    """Return coverage and CRPS of hidden numbers."""
    own = missing & [known is None for known in layout.levels]
    spread = truth.std(0)[np.nonzero(own)[1]]
    inside = coverage(truth[own], *interval(drawn[:, own], LEVEL))
    errors = crps(truth[own], drawn[:, own], fair=True) / spread
    return {"coverage": inside, "CRPS": errors.mean()}


def levels(truth, missing, drawn, layout):
    """Return how well levels are found, by kind of column."""
    scores = {}
    for place, (kind, known) in enumerate(zip(layout.kinds, layout.levels, strict=True)):
        if known is None:
            continue
        hidden = missing[:, place]
        true = truth[hidden, place][:, None] == np.array(known, float)
        told = (drawn[:, hidden, place, None] == np.arange(len(known))).mean(0)
        seen = truth[~hidden, place][:, None] == np.array(known, float)
        rare = seen.mean(0) < RARE
        # A level that was never seen counts as a miss.
        lost = (~true.any(1)).mean()
        scores[f"{kind} Brier"] = ((told - true) ** 2).sum(1).mean() + lost
        scores[f"{kind} off"] = (np.abs(told.mean(0) - true.mean(0)).sum() + lost) / 2
        scores[f"{kind} rare"] = told[:, rare].sum(1).mean()
        scores[f"{kind} rare, true"] = true[:, rare].sum(1).mean()
    return scores


def report(name, rows, lines):
    """Print means with their standard errors; scores also as differences from the one model's."""

    def of(values):
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
        return round(float(np.mean(values)), 4), round(float(error), 4)

    for way in dict.fromkeys(key[0] for key in lines[0] if isinstance(key, tuple)):
        told = {"table": name, "rows": rows, "replicates": len(lines), "way": way}
        for score in (key[1] for key in lines[0] if key[0] == way):
            told[score] = of([line[way, score] for line in lines])
            if score.endswith(("CRPS", "Brier", "off")):
                told[f"{score} - {ONE}'s"] = of(
                    [line[way, score] - line[ONE, score] for line in lines]
                )
            if score.endswith("rare"):
                told[f"{score} - true"] = of(
                    [line[way, score] - line[way, f"{score}, true"] for line in lines]
                )
        told["beyond"] = of([line["beyond"] for line in lines])[0]
        told["fit"] = of([line["fit"] for line in lines])[0]
        print(json.dumps(told), flush=True)


def gaussian(rows, rng):
    """Return four normals, each two correlated by a half."""
    return rng.normal(size=(rows, 4)) @ np.linalg.cholesky(0.5 * np.eye(4) + 0.5).T


def ties(rows, rng):
    """Return a rounded column, one that is often 0, a normal, and a rounded log-normal."""
    x = gaussian(rows, rng)
    rounded, cut = np.round(2 * x[:, 0]), np.maximum(x[:, 1], 0)
    return np.stack([rounded, cut, x[:, 2], np.round(np.exp(x[:, 3]))], 1)


def with_levels(count, rows, rng):
    """Return columns of every kind, all hanging together, and what they are.

    A normal, a log-normal, a boolean (.3), five ordered levels, a rounded column that is often 0,
    and so many levels without an order, the last ones rare.
    """
    x = rng.normal(size=(rows, 5)) @ np.linalg.cholesky(0.5 * np.eye(5) + 0.5).T
    grade = np.searchsorted(norm.ppf([0.08, 0.4, 0.75, 0.95]), x[:, 3])
    pull = np.random.default_rng(count).normal(0, 0.7, size=(count, 5))
    heights = x @ pull.T - POWER * np.log(np.arange(count) + 1.0) + rng.gumbel(size=(rows, count))
    found = [x[:, 0], np.exp(x[:, 1]), x[:, 2] > 0.52, grade, np.round(np.maximum(2 * x[:, 4], 0))]
    return np.stack([*found, heights.argmax(1)], 1), {
        "2": "boolean",
        "3": "ordinal",
        "5": "categorical",
    }


def some(table, rows, rng):
    """Return some rows of a table."""
    return table[rng.choice(len(table), rows, replace=False)]


def uci(data, name):
    if data is None:
        raise SystemExit(f"{name}: pass --data with the directory of {name}.csv")
    return np.loadtxt(data / f"{name}.csv", delimiter=",", skiprows=1)


TABLES = {
    "gaussian": gaussian,
    "skewed": lambda rows, rng: np.exp(gaussian(rows, rng)),
    "ties": ties,
    "diabetes": partial(some, datasets.load_diabetes(scaled=False, return_X_y=True)[0]),
    **{f"levels-{count}": partial(with_levels, count) for count in (2, 3, 5, 20)},
    "wine": partial(some, datasets.load_wine(return_X_y=True)[0]),
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default, files = ["gaussian", "skewed", "ties", "diabetes"], ["concrete", "red-wine"]
    parser.add_argument("--tables", nargs="+", default=default, choices=[*TABLES, *files])
    parser.add_argument("--data", type=Path, help="directory of the CSV files")
    parser.add_argument("--rows", nargs="+", type=int, default=[60])
    parser.add_argument("--replicates", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the first replicate's seed")
    parser.add_argument("--effort", default="short", help="or fast, default, thorough")
    return parser.parse_args()


if __name__ == "__main__":
    main()
