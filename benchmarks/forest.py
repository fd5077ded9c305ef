"""Our missForest beside R's randomForest in missForest's loop: the same tables, the same holes.

    python benchmarks/forest.py --data DIR --masks 5 --seeds 1

DIR holds the six tables of the paper's Table 2 (see docs/reproduce.md); `Rscript` and R's package
randomForest must be installed. The loop below is written after the article (Stekhoven and
Buehlmann, 2012) with the settings of R's package missForest 1.5, so that only the forests differ.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from plmcmc.baselines import ForestImputer
from plmcmc.data import Independent
from plmcmc.experiments.tables.table2 import SETS
from plmcmc.statistics import nmse

LOOP = """
suppressMessages(library(randomForest))
told <- commandArgs(TRUE)
set.seed(as.integer(told[3]))
x <- as.matrix(read.csv(told[1], header = FALSE, na.strings = "nan"))
colnames(x) <- NULL
holes <- is.na(x)
filled <- x
for (j in seq_len(ncol(x))) filled[holes[, j], j] <- mean(x[, j], na.rm = TRUE)
change <- Inf
for (iteration in 1:10) {
  before <- filled
  for (j in order(colSums(holes))) {
    if (!any(holes[, j])) next
    seen <- !holes[, j]
    # It warns where a column has few values.
    forest <- suppressWarnings(randomForest(
      filled[seen, -j, drop = FALSE], filled[seen, j],
      ntree = 100, mtry = floor(sqrt(ncol(x))), nodesize = 1))
    filled[!seen, j] <- predict(forest, filled[!seen, -j, drop = FALSE])
  }
  moved <- sum((filled - before)^2) / sum(filled^2)
  if (moved >= change) { filled <- before; break }
  change <- moved
}
write.table(filled, told[2], sep = ",", row.names = FALSE, col.names = FALSE)
"""


def main() -> None:
    arguments = _arguments()
    for name in arguments.sets:
        path = next(arguments.data.rglob(f"{name}.csv"))
        truth = np.genfromtxt(path, delimiter=",", skip_header=1)
        errors = [
            errors_of(truth, mask, seed)
            for mask in range(arguments.masks)
            for seed in range(arguments.seeds)
        ]
        ours, theirs = np.array(errors).T
        gap = ours - theirs
        error = gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else np.nan
        print(f"{name}: NMSE by row: ours {ours.mean():.3f}, R {theirs.mean():.3f}", end="; ")
        print(f"difference {gap.mean():+.4f} ± {error:.4f}")
        print("  ours", *np.round(ours, 3), "\n  R   ", *np.round(theirs, 3), flush=True)


def errors_of(truth, mask, seed):
    """Return the errors of ours and of R's at the holes of Table 2's mask."""
    missing = ~Independent(0.5)(truth, mask)
    holed = np.where(missing, np.nan, truth)
    ours = ForestImputer(random_state=seed).fill(holed)
    return nmse(truth, ours, missing), nmse(truth, by_r(holed, seed), missing)


def by_r(holed, seed):
    with tempfile.TemporaryDirectory() as folder:
        script, holes, filled = (Path(folder, name) for name in ("loop.R", "holes", "filled"))
        script.write_text(LOOP)
        np.savetxt(holes, holed, delimiter=",", fmt="%.17g")
        subprocess.run(["Rscript", script, holes, filled, str(seed)], check=True)
        return np.genfromtxt(filled, delimiter=",")


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1, help="runs of both for each mask")
    return parser.parse_args()


if __name__ == "__main__":
    main()
