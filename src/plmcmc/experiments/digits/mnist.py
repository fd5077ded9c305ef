"""Digits completed with a flow of whole digits, under three kinds of missingness (5.3, D.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from plmcmc.adaptation import Warmup
from plmcmc.chains import Unconditional
from plmcmc.experiments.algorithm1 import progression, whitening_of
from plmcmc.experiments.convergence import COLUMNS, convergence_cells, convergence_of, spent
from plmcmc.experiments.digits.complete_flow import FLOW_READINGS, FlowOfDigits
from plmcmc.experiments.digits.hidden import HiddenDigits, Rows
from plmcmc.experiments.digits.masked import masked_digit
from plmcmc.experiments.digits.missing import masks_of, mechanism_of
from plmcmc.experiments.markdown import OURS, PL_MCMC, table
from plmcmc.experiments.pictures import as_bytes, strips_of, write_strips
from plmcmc.experiments.readings import MIXTURE, WHITENED
from plmcmc.experiments.sources import Digits, embedded_digits, mnist
from plmcmc.experiments.study import Experiment, Found, Place, file_name, more, timed
from plmcmc.flows import full_precision, sample
from plmcmc.posterior import Draws, condition
from plmcmc.posterior.methods import Metropolis, Pullback
from plmcmc.target import NormalAuxiliary

SAMPLES, PAPER, DEFAULT = "samples", "PL-MCMC", "default"
# What both ways are called where they are shown.
SHOWN = {PAPER: PL_MCMC, DEFAULT: OURS}
CELLS = ("I.M. 0.6", "P.M. 0.6", "S.O. 0.8")
SEED = 0
# Samples across a sheet, and pictures of the default's progression.
ACROSS, STEPS = 10, 10
ERRORS = ("RMSE of a completion", "RMSE of the mean", "RMSE of the training mean")
# Strips of a grid, and what is shown in them.
STRIPS = {"seen": "masked", "last": "final completion", "mean": "mean", "truth": "truth"}


class Completed(NamedTuple):
    """Completions in pixels: all draws, those to average, and a progression with its names."""

    draws: Draws
    averaged: Rows
    progress: Rows
    labels: list[str]


@dataclass(frozen=True)
class Mnist(Experiment):
    """Completions by PL-MCMC as the paper runs it, and by the default sampler.

    Args:
        flow: how the flow of whole digits is trained (D.3).
        digits: test digits to complete.
        proposals: of each PL-MCMC chain (D.3).
        every: proposals from one picture of a progression to the next (5.3).
        chains: of PL-MCMC for each digit (D.3).
        perturb: sigma_p (D.3).
        resample: sigma_r (D.3).
        auxiliary: sigma_a, in whitened units (D.3).
        temperature: of the samples that chains start at.
        draws: of each chain of the default sampler.
        default_chains: of the default sampler for each digit.
        tuning: how it tunes.
        samples: unconditioned samples, at temperature 1 (D.3).
        embedded: digits that come along, not MNIST's.
        cells: missingness and rate (5.3).
    """

    flow: FlowOfDigits = field(default=FlowOfDigits())
    digits: int = 100
    proposals: int = 2_000
    every: int = 200
    chains: int = 20
    perturb: float = 0.05
    resample: float = 0.5
    auxiliary: float = 1e-3
    temperature: float = 0.5
    draws: int = 100
    default_chains: int = 4
    tuning: Warmup = field(default=Warmup())
    samples: int = 50
    embedded: bool = False
    cells: Sequence[str] = more(CELLS)

    readings: ClassVar[Sequence[str]] = (
        "The 'reduced variance' of the samples from which chains start (5.3) is not given: "
        "temperature .5, which equals sigma_r. Observed pixels are not inserted at the start: "
        "chains find them, as in training.",
        WHITENED,
        "The paper does not say which digits, or how many (5.3, D.3): the first ones of the test "
        "set, 100 at full scale, of which ten are shown.",
        *masks_of("S.O.", "P.M."),
        "Completions are clamped to the range of each pixel in the training set, as in E.1.",
        "RMSE is computed over the missing pixels of each digit and averaged over digits (E.1), "
        "with pixels in [0, 1]; for a single completion it is also averaged over chains. The "
        "paper gives none for this task.",
        MIXTURE,
        f"R-hat of {PL_MCMC} is computed from its states after every 200 proposals, from the "
        f"start: the paper mentions no warm-up. R-hat of {OURS} is computed from all its draws.",
        *FLOW_READINGS,
    )

    def parts(self) -> list[str]:
        """Return the samples, and every kind of missingness completed in both ways."""
        return [SAMPLES, *(f"{cell}, {way}" for cell in self.cells for way in (PAPER, DEFAULT))]

    def run(self, part: str, place: Place) -> Found:
        """Draw samples, or complete all digits in one way."""
        digits = embedded_digits(large=False) if self.embedded else mnist(place)
        flow: Any = self.flow.trained(digits.train, place)
        if part == SAMPLES:
            return self._sampled(flow, digits)
        cell, way = part.split(", ")
        task = HiddenDigits.of(digits, self.digits, mechanism_of(cell), SEED)
        with timed() as taken:
            if way == PAPER:
                done = self._paper(flow, task, part, place)
            else:
                done = self._default(flow, task, place)
        last = task.within(done.draws.values[:, -1])
        mean = task.within(done.averaged).mean(0)
        numbers = task.errors(last, mean) | convergence_of(done.draws)
        numbers |= taken | {"progress": done.labels}
        return Found(numbers, task.pictures(last[0], mean, task.within(done.progress)))

    @torch.no_grad()
    def _sampled(self, flow: Any, digits: Digits) -> Found:
        source = torch.Generator(next(flow.parameters()).device).manual_seed(SEED)
        with full_precision():
            drawn = sample(flow, self.samples, source).cpu().numpy()
        images = as_bytes(drawn).reshape(-1, *digits.test.shape[1:])
        return Found({"samples": len(images)}, {"samples": images})

    def _paper(self, flow: Any, task: HiddenDigits, part: str, place: Place) -> Completed:
        """Run Algorithm 1; what is averaged is where chains end."""
        # In whitened units, as in training: the auxiliary's deviation is one of those.
        mean, scale = whitening_of(flow)
        draws, initial = progression(
            condition(flow.flow, (task.truth - mean) / scale, task.observed),
            Metropolis(self.perturb, self.resample, NormalAuxiliary(self.auxiliary)),
            Unconditional(self.temperature, projected=False),
            part,
            place,
            proposals=self.proposals,
            every=self.every,
            chains=self.chains,
            seed=SEED,
        )
        draws = replace(draws, values=draws.values * scale + mean)
        progress = np.stack([initial * scale + mean, *draws.values[0]])
        labels = [f"{step * self.every:,} proposals" for step in range(len(progress))]
        return Completed(draws, draws.values[:, -1], progress, labels)

    def _default(self, flow: Any, task: HiddenDigits, place: Place) -> Completed:
        """Run the default sampler; what is averaged are all its draws."""
        draws = condition(flow, task.truth, task.observed).sample(
            self.draws,
            chains=self.default_chains,
            method=Pullback(self.tuning),
            random_state=SEED,
            progress=place.progress,
        )
        steps = sorted({int(step) for step in np.linspace(0, self.draws - 1, STEPS).round()})
        labels = [f"{passes:,.0f} passes" for passes in spent(draws)[steps]]
        averaged = draws.values.reshape(-1, *task.truth.shape)
        return Completed(draws, averaged, draws.values[0, steps], labels)

    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return a table of errors and convergence; write grids of digits."""
        # In the order of the parts, whichever was finished first.
        names = dict.fromkeys([*self.parts(), *found])
        found = {name: found[name] for name in names if name in found}
        text = table("", [*ERRORS, *COLUMNS], _rows(found)) + "\n"
        for part, own in found.items():
            name = file_name(part)
            path = place.output / f"{name}.png"
            if part == SAMPLES:
                write_strips(path, strips_of(own.arrays["samples"], ACROSS))
                text += f"## Unconditioned samples, temperature 1\n\n![samples]({path.name})\n\n"
                continue
            write_strips(path, [(words, own.arrays[key]) for key, words in STRIPS.items()])
            text += f"## {_shown(part)}\n\n![completions]({path.name})\n\n"
            path = place.output / f"{name}-progress.png"
            write_strips(
                path, list(zip(own.numbers["progress"], own.arrays["progress"], strict=True))
            )
            text += f"Progress of one chain:\n\n![progression]({path.name})\n\n"
        return text


def _shown(part: str) -> str:
    """Return what a part is called where it is shown."""
    cell, way = part.split(", ")
    return f"{cell}, {SHOWN[way]}"


def _rows(found: Mapping[str, Found]) -> Iterator[tuple[str, list[str]]]:
    for part, own in found.items():
        if part != SAMPLES:
            errors = [f"{own.numbers[name]:.4f}" for name in ERRORS]
            yield _shown(part), [*errors, *convergence_cells(own.numbers)]


def at(name: str, scale: str) -> Mnist:
    """Return the experiment at a scale."""
    del name
    flow = masked_digit(scale).flow
    if scale == "full":
        return Mnist(flow=flow)
    if scale == "laptop":
        return Mnist(flow=flow, digits=20, draws=40)
    return Mnist(
        flow=flow,
        digits=3,
        proposals=20,
        every=4,
        chains=3,
        draws=4,
        default_chains=2,
        tuning=Warmup(climb_steps=10, windows=(4,), stretches=(), most_turns=8),
        samples=20,
        embedded=True,
        cells=CELLS[1:2],
    )
