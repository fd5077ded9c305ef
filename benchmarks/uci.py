"""The six UCI sets of the paper's Table 2, half of the values hidden: ours beside others.

    python benchmarks/uci.py --data DIR/uci --masks 0 1 2 3 4

NMSE by the paper's row formula and per entry, CRPS in deviations of the columns (the fair one, that
does not depend on the number of draws), coverage of 90% intervals, CPU seconds of fitting and
drawing, and the share of holes that converged. One thread. A line for each run, then tables of
means over the masks; `--read FILE ...` makes the tables of lines saved before.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from plmcmc.baselines import ForestImputer, GaussianImputer, MeanImputer
from plmcmc.imputation import FlowImputer
from plmcmc.statistics import coverage, crps, nmse

CONVERGED: list[float] = []
DEVICE = ["cpu"]
SETS = ("banknote", "breast", "concrete", "red-wine", "white-wine", "yeast")
DRAWS = 100
MICE_SETS = 25
PAIRED = ("NMSE", "NMSE per entry", "NMSE of 25 draws", "CRPS")
SCORES = (*PAIRED, "coverage", "R-hat under 1.1", "CPU seconds")


def main() -> None:
    arguments = _arguments()
    if arguments.read:
        texts = "\n".join(path.read_text() for path in arguments.read)
        report([json.loads(text) for text in texts.splitlines() if text.startswith("{")])
        return
    lines, DEVICE[0] = [], arguments.device
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in arguments.sets:
        truth = np.loadtxt(arguments.data / f"{name}.csv", delimiter=",", skiprows=1)
        for mask in arguments.masks:
            missing = np.random.default_rng(mask).random(truth.shape) < 0.5
            table = np.where(missing, np.nan, truth)
            for method in arguments.methods:
                began = time.process_time()
                try:
                    filled, drawn = METHODS[method](table, mask)
                except ImportError as missing_package:
                    print(f"{method}: left out, {missing_package}", flush=True)
                    continue
                line = {"set": name, "mask": mask, "method": method}
                line |= scores(truth, missing, filled, drawn)
                line["CPU seconds"] = round(time.process_time() - began, 1)
                if CONVERGED:
                    line["R-hat under 1.1"] = CONVERGED.pop()
                print(json.dumps(line), flush=True)
                lines.append(line)
    report(lines)


def report(lines) -> None:
    """Print a table of means over masks for each score, and paired differences from ours."""
    found = {(line["method"], line["set"], line["mask"]): line for line in lines}
    methods = list(dict.fromkeys(method for method, _, _ in found))
    sets = [name for name in SETS if any(own == name for _, own, _ in found)]
    for score in SCORES:
        print(f"\n| {score} | {' | '.join(sets)} |\n|{'---|' * (len(sets) + 1)}")
        for method in methods:
            cells = [_cell(found, methods[0], method, name, score) for name in sets]
            if any(cells):
                print(f"| {method} | {' | '.join(cells)} |")


def _cell(found, ours, method, name, score) -> str:
    """Return the mean, and in brackets how far it is from ours: mean and standard error, paired."""
    own, first = (
        {
            mask: line[score]
            for (m, s, mask), line in found.items()
            if (m, s) == (who, name) and score in line
        }
        for who in (method, ours)
    )
    if not own:
        return ""
    text = f"{np.mean(list(own.values())):.4f}"
    both = sorted(own.keys() & first.keys())
    if method == ours or len(both) < 2 or score not in PAIRED:
        return f"{text} ({len(own)})" if method == ours else text
    gaps = np.array([own[mask] - first[mask] for mask in both])
    return f"{text} ({gaps.mean():+.3f} ± {gaps.std(ddof=1) / len(gaps) ** 0.5:.3f})"


def scores(truth, missing, filled, drawn) -> dict[str, float]:
    """Return what is told of one method's table and draws."""
    found = {
        "NMSE": round(nmse(truth, filled, missing), 4),
        "NMSE per entry": round(nmse(truth, filled, missing, by="entry"), 4),
    }
    if drawn is None:
        return found
    hidden, spread = drawn[:, missing], truth.std(0)[np.nonzero(missing)[1]]
    low, high = np.quantile(hidden, [0.05, 0.95], axis=0)
    found["NMSE of 25 draws"] = round(nmse(truth, drawn[:25].mean(0), missing), 4)
    found["CRPS"] = round(float((crps(truth[missing], hidden, fair=True) / spread).mean()), 4)
    found["coverage"] = round(float(coverage(truth[missing], low, high)), 4)
    return found


def flow(effort):
    """Return our imputer at some effort; it also says which share of the holes converged."""

    def run(table, seed):
        imputer = FlowImputer(effort, random_state=seed, device=DEVICE[0], progress=False).fit(
            table
        )
        filled = imputer.transform(table)
        if imputer.convergence_.checked:
            CONVERGED.append(round(imputer.convergence_.share, 3))
        return filled, imputer.sample(table, DRAWS)

    return run


def gaussian(table, seed):
    return GaussianImputer().fill(table), GaussianImputer().sample(table, DRAWS, seed)


def iterative(table, seed):
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return IterativeImputer(random_state=seed, max_iter=30).fit_transform(table), None


def mice(table, seed):
    import miceforest
    import pandas as pd

    frame = pd.DataFrame(table, columns=[f"c{place}" for place in range(table.shape[1])])
    drawn = []
    for number in range(MICE_SETS):
        # One by one: it keeps every forest, and of 25 tables of 30 columns that is 20 GB.
        kernel = miceforest.ImputationKernel(frame, random_state=MICE_SETS * seed + number)
        kernel.mice(5)
        drawn.append(kernel.complete_data(0).to_numpy())
    return np.mean(drawn, 0), np.stack(drawn)


METHODS = {
    "plmcmc fast": flow("fast"),
    "plmcmc": flow("default"),
    "plmcmc thorough": flow("thorough"),
    "mean": lambda table, seed: (MeanImputer().fill(table), None),
    "Gaussian EM": gaussian,
    "missForest": lambda table, seed: (ForestImputer(random_state=seed).fill(table), None),
    "IterativeImputer": iterative,
    "miceforest": mice,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="directory of the CSV files")
    parser.add_argument("--read", type=Path, nargs="+", help="files of lines to make tables of")
    parser.add_argument("--device", default="cpu", help="where ours work")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--masks", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    default = ["plmcmc", "mean", "Gaussian EM", "missForest", "IterativeImputer"]
    parser.add_argument("--methods", nargs="+", default=default, choices=METHODS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
