"""Our own training from incomplete digits, and draws of its flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.data import Incomplete, observed_moments
from plmcmc.experiments.convergence import convergence_of
from plmcmc.experiments.digits.filler import Budget, Completed, Filler, flat, range_of
from plmcmc.experiments.digits.incomplete_flow import Seen
from plmcmc.experiments.sources import Pixels
from plmcmc.flows import Preprocessed, Whiten, log_prob
from plmcmc.posterior import condition, methods
from plmcmc.rng import generator
from plmcmc.statistics import coverage
from plmcmc.training import EMSchedule, MonteCarloEM, paper_mnist

# Pixels that are hardly ever on would be the largest of all when whitened.
FLOOR = 0.05
# Of our chains: turns of a trajectory, and trajectories that tune a round of training. On smoothed
# digits a metric for each costs more than it gains.
TURNS, TUNING = 12, 3
# Digits that are looked at for more than their error: are draws wide enough, is the flow learned
# by heart?
LOOKED, LEVEL = 1000, 0.9


class Ours(Filler):
    """The same flow with Hamiltonian chains on the holes, in training and after."""

    asks = (
        "width",
        "precision",
        "compiled",
        *(own.name for own in fields(Budget) if own.name.startswith("our_")),
    )

    def fit(self, digits: Pixels, observed: Seen) -> None:
        """Train by Monte Carlo EM whose chains go on from round to round."""
        budget, rows, seen = self.budget, flat(digits), flat(observed)
        # Before training, whose first holes are drawn in its own units.
        moments = observed_moments(Incomplete.of(rows, seen), floor=FLOOR)
        whitened = (rows - moments.mean.numpy()) / moments.scale.numpy()
        preset = replace(paper_mnist(), width=budget.width, features=rows.shape[1])
        schedule = EMSchedule(
            epochs=budget.our_epochs,
            every=budget.our_every,
            proposals=budget.our_trajectories,
            copies=1,
            batch_size=500,
            optimizer="adamw",
            learning_rate=3e-4,
            falling=budget.our_falling,
            clip=10.0,
            noise=budget.our_noise,
            precision=budget.precision,
            compiled=budget.compiled,
            method=methods.DataHamiltonian(turns=TURNS, tuning=TUNING),
            whiten=False,
            # A draw below 0 that is put to 0 raises the mean, which the next round learns: where
            # little is seen, means climb from round to round.
            clamp=False,
        )
        fitted = MonteCarloEM(schedule).fit(
            preset.flow(self.seed).to(self.place.device),
            whitened,
            seen,
            random_state=self.seed,
            progress=self.place.progress,
            checkpoint=self.checkpoint,
        )
        whiten = Whiten(*moments).to(self.place.device)
        self.smoothing = budget.our_noise * whiten.scale
        self.trained, self.range = Preprocessed([whiten], fitted.flow).eval(), range_of(rows, seen)
        self.told["accepted in training"] = [round(rate, 4) for rate in fitted.acceptance]
        self.told["nats of whole training digits"] = self._nats(rows)

    def complete(self, digits: Pixels, observed: Seen, seed: int) -> Completed:
        """Return the chains' last draws, and the mean of all draws."""
        rows, seen, budget = flat(digits), flat(observed), self.budget
        options = {"precision": budget.precision, "compiled": budget.compiled}
        draws = condition(self.trained, rows, seen, **options).sample(
            budget.our_draws,
            thin=2,
            chains=budget.our_chains,
            warmup=budget.our_warmup,
            method=methods.DataHamiltonian(turns=TURNS),
            random_state=seed,
            progress=self.place.progress,
        )
        converged = "share at R-hat 1.1 or less"
        told = {
            converged: convergence_of(draws)[converged],
            "90% intervals hold": _held(draws.values, rows, seen),
            "nats of whole test digits": self._nats(rows),
        }

        def ways() -> Iterator[tuple[str, NDArray]]:
            named = [(", single", values) for values in draws.values[:, -1]]
            for name, values in [*named, (", average", draws.mean())]:
                inside = np.clip(values, *self.range)
                yield name, np.where(seen, rows, inside).reshape(digits.shape)

        return Completed(ways(), told)

    def _nats(self, rows: NDArray) -> float:
        """Return the mean log-density of the first digits, whole, and smoothed as in training."""
        x = torch.as_tensor(rows[:LOOKED], device=self.place.device)
        source = generator(self.seed, "smoothing", device=x.device)
        z = torch.randn(x.shape, generator=source, device=x.device)
        with torch.no_grad():
            nats = log_prob(self.trained, x + self.smoothing * z)
        return round(float(nats.mean()), 2)


def _held(draws: NDArray, rows: NDArray, seen: Seen) -> float:
    """Return how many hidden pixels of the first digits lie within intervals of their draws."""
    ends = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    low, high = np.quantile(draws[:, :, :LOOKED], ends, axis=(0, 1))
    hidden = ~seen[:LOOKED]
    return round(coverage(rows[:LOOKED][hidden], low[hidden], high[hidden]), 4)
