"""What fills tables in Table 2: each learns from a table with holes, and fills it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from plmcmc.baselines import ForestImputer, GaussianImputer, MeanImputer, MiwaeImputer
from plmcmc.experiments.algorithm1 import last_completions
from plmcmc.experiments.sources import Table
from plmcmc.experiments.study import Place
from plmcmc.imputation import Effort, FlowImputer
from plmcmc.training import MonteCarloEM, double, paper, undouble
from plmcmc.training.presets import TABLES, Preset

# Draws that CRPS and coverage are taken of, and completed tables of miceforest with its rounds.
DRAWS, MICE_TABLES, MICE_ROUNDS = 100, 25, 5
OURS = "plmcmc"


class Filled(NamedTuple):
    """A table filled by one method, its draws if it has any, and what else it tells."""

    table: Table
    draws: Table | None = None
    told: Mapping[str, float] = {}


@dataclass(frozen=True)
class TableBudget:
    """How much work goes into each; None is the paper's own.

    Attributes:
        epochs: of the paper's training, with an E-step after every twentieth of them.
        proposals: of its chains, in training and after.
        chains: of a row that are averaged.
        miwae_epochs: of MIWAE's training.
        miwae_samples: weighted latents of a row that MIWAE fills by.
        trees: of each of missForest's forests.
        effort: of ours.
        precision: that the paper's flows compute in.
        compiled: let torch compile the paper's training and its chains.
    """

    epochs: int | None = None
    proposals: int | None = None
    chains: int | None = None
    miwae_epochs: int = 2000
    miwae_samples: int = 10_000
    trees: int = 100
    effort: str | Effort = "default"
    precision: str = "float32"
    compiled: bool = False


# What methods take of a budget.
ASKED = {
    "PL-MCMC": ("epochs", "proposals", "chains", "precision", "compiled"),
    OURS: ("effort",),
    "MIWAE": ("miwae_epochs", "miwae_samples"),
    "missForest": ("trees",),
}


@dataclass(frozen=True)
class TableFiller:
    """Fills a table by the method that is named.

    Attributes:
        budget: how much work goes into it.
        place: where to work.
        checkpoint: where training saves itself on its way, and goes on from.
    """

    budget: TableBudget
    place: Place
    checkpoint: Path | None = None

    def __call__(self, method: str, name: str, holed: Table, seed: int) -> Filled:
        """Return one of the paper's tables, or another, filled by a method."""
        if method == "PL-MCMC":
            return self._plmcmc(name, holed, seed)
        if method == OURS:
            return self._ours(holed, seed)
        if method == "MIWAE":
            fitted = MiwaeImputer(
                epochs=self.budget.miwae_epochs,
                samples=self.budget.miwae_samples,
                random_state=seed,
                device=self.place.device,
                progress=self.place.progress,
            ).fit(holed, checkpoint=self.checkpoint)
            return Filled(fitted.fill(holed), fitted.sample(holed, DRAWS, seed))
        if method == "missForest":
            return Filled(ForestImputer(self.budget.trees, random_state=seed).fill(holed))
        return BASELINES[method](holed, seed)

    def _plmcmc(self, name: str, holed: Table, seed: int) -> Filled:
        """Train by Algorithm 2 and fill by Algorithm 1, at the paper's settings."""
        preset = self._preset(name, holed)
        rows = double(holed) if preset.doubled else holed
        flow = preset.flow(seed).to(self.place.device)
        fitted = MonteCarloEM(preset.schedule).fit(
            flow,
            rows,
            random_state=seed,
            progress=self.place.progress,
            checkpoint=self.checkpoint,
        )
        draws = last_completions(
            fitted.flow,
            rows,
            preset.schedule.method,
            preset.schedule.start,
            self.place,
            proposals=preset.schedule.proposals,
            chains=preset.draws,
            seed=seed,
            precision=self.budget.precision,
            compiled=self.budget.compiled,
        )
        draws = np.clip(draws, np.nanmin(rows, 0), np.nanmax(rows, 0))
        draws = undouble(draws) if preset.doubled else draws
        told = {"accepted in training": float(np.mean(fitted.acceptance))}
        return Filled(draws.mean(0), draws, told)

    def _preset(self, name: str, holed: Table) -> Preset:
        """Return the paper's settings, or fewer of all; fewer epochs have as many E-steps."""
        preset = paper(name) if name in TABLES else _preset_like(holed)
        schedule, epochs = preset.schedule, self.budget.epochs or preset.schedule.epochs
        schedule = replace(
            schedule,
            epochs=epochs,
            every=max(1, schedule.every * epochs // schedule.epochs),
            proposals=self.budget.proposals or schedule.proposals,
            precision=self.budget.precision,
            compiled=self.budget.compiled,
        )
        return replace(preset, schedule=schedule, draws=self.budget.chains or preset.draws)

    def _ours(self, holed: Table, seed: int) -> Filled:
        imputer = FlowImputer(
            self.budget.effort,
            random_state=seed,
            device=self.place.device,
            progress=self.place.progress,
            checkpoint=self.checkpoint,
        ).fit(holed)
        filled = imputer.transform(holed)
        seen = imputer.convergence_
        told = {"share at R-hat under 1.1": float(seen.share)} if seen.checked else {}
        return Filled(filled, imputer.sample(holed, DRAWS), told)


def _gaussian(holed: Table, seed: int) -> Filled:
    return Filled(GaussianImputer().fill(holed), GaussianImputer().sample(holed, DRAWS, seed))


def _mice(holed: Table, seed: int) -> Filled:
    import miceforest  # pyright: ignore[reportMissingImports]
    import pandas as pd

    frame = pd.DataFrame(holed, columns=[f"c{place}" for place in range(holed.shape[1])])
    drawn = []
    for number in range(MICE_TABLES):
        # One by one: it keeps every forest, and of 25 tables of 30 columns that is 20 GB.
        kernel = miceforest.ImputationKernel(frame, random_state=MICE_TABLES * seed + number)
        kernel.mice(MICE_ROUNDS)
        drawn.append(kernel.complete_data().to_numpy())
    return Filled(np.mean(drawn, 0), np.stack(drawn))


BASELINES: dict[str, Callable[[Table, int], Filled]] = {
    "mean": lambda holed, seed: Filled(MeanImputer().fill(holed)),
    "Gaussian EM": _gaussian,
    "miceforest": _mice,
}


def _preset_like(holed: Table) -> Preset:
    """Return the paper's settings for a table that is not one of its own."""
    preset = paper("concrete" if holed.shape[1] % 2 else "banknote")
    features = holed.shape[1] * (2 if preset.doubled else 1)
    return replace(preset, features=features)
