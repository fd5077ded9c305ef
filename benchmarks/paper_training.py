"""The paper's training from incomplete tables in full (its Table 2, appendix E.2), half hidden.

    python benchmarks/paper_training.py --data DIR/uci --sets banknote concrete --device cuda

Trains the preset of each set by Monte Carlo EM, then imputes its own rows: 25 chains, 2,000
proposals, the last completions clamped to the observed range, alone and averaged. One JSON line a
set. NMSE by the paper's row formula and per entry; a single draw's is the mean over the draws.

Where chains start is not in appendix E.2. `--start samples`, the preset's: at samples of the flow,
of which the observed part is not yet right, in training and after, as where the paper says it (E.3,
5.3). `--start completions`: each chain goes on from its row's last completion; after training, from
samples of the flow with the observed values put in.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from plmcmc.chains import Unconditional
from plmcmc.posterior import condition
from plmcmc.statistics import nmse
from plmcmc.training import MonteCarloEM, double, paper, undouble

SETS = ("banknote", "breast", "concrete", "red-wine", "white-wine", "yeast")


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in arguments.sets:
        truth = np.loadtxt(arguments.data / f"{name}.csv", delimiter=",", skiprows=1)
        missing = np.random.default_rng(arguments.mask).random(truth.shape) < 0.5
        preset, table = paper(name), np.where(missing, np.nan, truth)
        schedule = scheduled(preset.schedule, arguments)
        flow = preset.flow(arguments.mask).to(arguments.device)
        began = time.perf_counter()
        rows = double(table) if preset.doubled else table
        fitted = MonteCarloEM(schedule).fit(flow, rows, random_state=arguments.mask)
        trained = time.perf_counter()
        values, accepted = drawn(fitted, rows, preset, schedule, arguments.mask)
        line = {"set": name, "mask": arguments.mask, "start": arguments.start}
        copies = fitted.completed
        if preset.doubled:
            values, copies = undouble(values), undouble(copies)
        line |= scores(truth, missing, values)
        line["NMSE of training's copies"] = round(alone(truth, missing, copies), 4)
        line["seconds of training"] = round(trained - began, 1)
        line["seconds of drawing"] = round(time.perf_counter() - trained, 1)
        line |= {"epochs": schedule.epochs, "proposals": schedule.proposals}
        line["accepted in training"] = [round(rate, 4) for rate in fitted.acceptance]
        line["accepted, mean"] = round(float(np.mean(fitted.acceptance)), 4)
        line["accepted in drawing"] = round(accepted, 4)
        line["last loss"] = round(fitted.losses[-1], 3)
        print(json.dumps(line), flush=True)


def scheduled(schedule, arguments):
    """Return the preset's schedule as it is asked for; fewer epochs have as many E-steps."""
    epochs = arguments.epochs or schedule.epochs
    every = max(1, schedule.every * epochs // schedule.epochs)
    start = schedule.start if arguments.start == "samples" else None
    proposals = arguments.proposals or schedule.proposals
    return replace(schedule, epochs=epochs, every=every, proposals=proposals, start=start)


def drawn(fitted, rows, preset, schedule, seed):
    """Return the chains' last completions `(chains, rows, columns)`, clamped, and acceptance."""
    # In whitened units, as in training: the auxiliary's scale is in units of the flow's data.
    whiten = fitted.flow.chain[0]
    mean, scale = (part.double().cpu().numpy() for part in (whiten.mean, whiten.scale))
    posterior = condition(fitted.flow.flow, (rows - mean) / scale)
    draws = posterior.sample(
        1,
        chains=preset.draws,
        warmup=0,
        thin=schedule.proposals,
        method=schedule.method,
        start=schedule.start or Unconditional(),
        random_state=seed,
    )
    values = draws.values[:, 0] * scale + mean
    values = np.clip(values, np.nanmin(rows, 0), np.nanmax(rows, 0))
    return values, float(np.nanmean(draws.acceptance))


def scores(truth, missing, values):
    average = values.mean(0)
    return {
        "NMSE, single": round(alone(truth, missing, values), 4),
        "NMSE, average": round(nmse(truth, average, missing), 4),
        "NMSE per entry, single": round(alone(truth, missing, values, by="entry"), 4),
        "NMSE per entry, average": round(nmse(truth, average, missing, by="entry"), 4),
    }


def alone(truth, missing, values, by: Literal["row", "entry"] = "row"):
    """Return the NMSE of a single draw, the mean over all of them."""
    return float(np.mean([nmse(truth, draw, missing, by=by) for draw in values]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of the CSV files")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--mask", type=int, default=0, help="seed of the holes, and of all else")
    parser.add_argument("--start", default="samples", choices=("samples", "completions"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, help="fewer than the paper's 1,000, for a trial")
    parser.add_argument("--proposals", type=int, help="fewer than the paper's 2,000, for a trial")
    return parser.parse_args()


if __name__ == "__main__":
    main()
