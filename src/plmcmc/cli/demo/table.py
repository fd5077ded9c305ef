"""The demo's first half: a table, half of it hidden, filled by us and by others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from plmcmc.baselines import ForestImputer, GaussianImputer, MeanImputer
from plmcmc.chains import progress_bar
from plmcmc.cli.demo.picture import truth_picture
from plmcmc.cli.demo.report import write_report
from plmcmc.cli.demo.scores import LEVEL, Trial, score_table, verdicts
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.convergence import LIMIT

HIDDEN = 0.5
COLUMNS = 10
DRAWS = 100
# The demo is to be over soon.
EFFORT = "fast"
OURS = f"plmcmc ({EFFORT})"
TREES = 100

Array = NDArray[np.float64]
Filled = tuple[Array, Array | None]


class Hiding(NamedTuple):
    """A table, and which of its values are hidden."""

    truth: pd.DataFrame
    missing: NDArray[np.bool_]

    @property
    def table(self) -> pd.DataFrame:
        """What is left to see."""
        return self.truth.mask(self.missing)


def fill_table(output: Path, seed: int, console: Console) -> dict[Path, str]:
    """Hide, fill, compare; return what was written, and what it is."""
    hiding = hidden_half(seed)
    console.print(_hidden_in_words(hiding))
    others = _trials(hiding, seed)
    imputer = FlowImputer(EFFORT, random_state=seed)
    ours = _trial(hiding, OURS, lambda table: _ours(imputer, table))
    trials = [*others, ours]
    console.print("", score_table(trials), _numbers_in_words(), "", sep="\n")
    console.print(*verdicts(trials), _converged(imputer), sep="\n")
    console.print("Diagnosing some rows in detail, for the report ...")
    written = _write(output, hiding, imputer, ours, seed)
    console.print(_unchanged(hiding, output / "table-filled.csv"))
    return written


def hidden_half(seed: int) -> Hiding:
    """Return scikit-learn's breast cancer table, and half of it to hide."""
    from sklearn.datasets import load_breast_cancer

    everything: Any = load_breast_cancer(return_X_y=True, as_frame=True)[0]
    truth = everything.iloc[:, :COLUMNS]
    return Hiding(truth, np.random.default_rng(seed).random(truth.shape) < HIDDEN)


def _others(seed: int) -> Mapping[str, Callable[[pd.DataFrame], Filled]]:
    gaussian, forest = GaussianImputer(), ForestImputer(TREES, random_state=seed)
    return {
        "mean of the column": lambda table: (MeanImputer().fill(table), None),
        "Gaussian EM": lambda table: (gaussian.fill(table), gaussian.sample(table, DRAWS, seed)),
        "forests (missForest)": lambda table: (forest.fill(table), None),
    }


def _ours(imputer: FlowImputer, table: pd.DataFrame) -> Filled:
    imputer.fit(table)
    # The draws come last: they are many, and their chains say whether they have converged.
    return imputer.transform(table).to_numpy(), imputer.sample(table, DRAWS)


def _trials(hiding: Hiding, seed: int) -> list[Trial]:
    """Let the other methods fill the table."""
    methods, found = _others(seed), []
    with progress_bar("Other methods", len(methods)) as report:
        for done, (name, fill) in enumerate(methods.items()):
            report(done, name)
            found.append(_trial(hiding, name, fill))
        report(len(methods), "")
    return found


def _trial(hiding: Hiding, method: str, fill: Callable[[pd.DataFrame], Filled]) -> Trial:
    began = time.perf_counter()
    filled, drawn = fill(hiding.table)
    seconds = time.perf_counter() - began
    return Trial(method, hiding.truth.to_numpy(), hiding.missing, filled, drawn, seconds)


def _hidden_in_words(hiding: Hiding) -> str:
    rows, columns = hiding.truth.shape
    hidden = int(hiding.missing.sum())
    return (
        f"{rows} rows and {columns} columns of scikit-learn's breast cancer table: size, texture "
        f"and shape of cell nuclei. Of {hiding.missing.size:,} values, {hidden:,} are hidden at "
        "random. Each method sees only the rest, and fills in its estimates of the hidden ones."
    )


def _numbers_in_words() -> Table:
    told = {
        "NMSE": "squared error of the filled-in values, in units of each column's standard "
        "deviation: 0 is perfect, the column's mean scores about 1",
        "CRPS": f"error of {DRAWS} draws per hidden value, taken together: low if they are close "
        "to it and not overconfident",
        f"in {LEVEL:.0%} interval": f"share of hidden values inside the central "
        f"{LEVEL:.0%} of their draws: {LEVEL:.0%} is ideal",
        "-": "not available: the method makes no draws",
    }
    table = Table.grid(padding=(0, 2))
    for name, words in told.items():
        table.add_row(name, words)
    return table


def _write(
    output: Path, hiding: Hiding, imputer: FlowImputer, ours: Trial, seed: int
) -> dict[Path, str]:
    names = [str(name) for name in hiding.truth.columns]
    holes, filled = output / "table.csv", output / "table-filled.csv"
    hiding.table.to_csv(holes, index=False)
    pd.DataFrame(ours.filled, columns=names).to_csv(filled, index=False)
    picture = truth_picture(output / "table.png", names, ours, seed)
    model = imputer.save(output / "table-model", overwrite=True)
    report = write_report(output / "table-report.html", holes, filled, imputer)
    return {
        holes: "the table with missing values",
        filled: "the same table, filled",
        report: "what was missing and filled in, and how certain it is",
        picture: "hidden values next to what was drawn for them",
        model: "the fitted model, for plmcmc impute --model",
    }


def _unchanged(hiding: Hiding, path: Path) -> str:
    """Compare what was written with what was seen, and say so."""
    read = np.loadtxt(path, delimiter=",", skiprows=1)
    seen = ~hiding.missing
    if not np.array_equal(read[seen], hiding.truth.to_numpy()[seen]):
        raise RuntimeError(
            f"{path} differs from the observed values: this is a bug, please report it"
        )
    return f"All {int(seen.sum()):,} observed values are unchanged in {path.name}."


def _converged(imputer: FlowImputer) -> str:
    share = imputer.convergence_.share
    return f"Chains have converged (R-hat under {LIMIT}) for {share:.0%} of the hidden values."
