"""How training digits are imputed while a flow learns from them: early, and at the end (E.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from plmcmc.experiments.cache import write_figure
from plmcmc.experiments.digits.incomplete_flow import FlowOfHoledDigits, Seen, Trained
from plmcmc.experiments.digits.missing import masks_of, mechanism_of
from plmcmc.experiments.markdown import table
from plmcmc.experiments.pictures import Bytes, as_bytes, covered, write_strips
from plmcmc.experiments.readings import LEVELS, MIXTURE, WHITENED, not_reduced
from plmcmc.experiments.sources import Pixels, embedded_digits, mnist
from plmcmc.experiments.study import Experiment, Found, Place, file_name, more, timed
from plmcmc.statistics import reconstruction_rmse

CELLS = ("I.M. 0.6", "P.M. 0.6")
FIRST, LAST = "first E-step", "last E-step"
SEED, SHOWN = 0, 10


@dataclass(frozen=True)
class TrainingProgress(Experiment):
    """Imputed training digits after the first and after the last E-step.

    Args:
        training: Monte Carlo EM at the paper's settings.
        digits: of the training set; None for all.
        embedded: digits that come along, not MNIST's.
        cells: missingness and rate.
    """

    training: FlowOfHoledDigits = field(default=FlowOfHoledDigits())
    digits: int | None = None
    embedded: bool = False
    cells: Sequence[str] = more(CELLS)

    readings: ClassVar[Sequence[str]] = (
        "The figure's 'initial completions' (E.1) are read as those of the first E-step, after 50 "
        "epochs on normal noise, as its caption says 'by PL-MCMC'. 'Epoch 950' is the last of 19 "
        "E-steps.",
        "E.1 writes sigma_p for the standard deviation of resampling: read as sigma_r, 1.814 "
        "'within the first 500 epochs', then .5. The E-step at the end of epoch 500 already uses "
        ".5.",
        "Chains of an E-step start at samples of the flow, without inserting observed pixels, and "
        "make 2,000 proposals: E.1 states neither for training.",
        not_reduced("E.1", "1.814", "logistic"),
        WHITENED,
        MIXTURE,
        LEVELS,
        *masks_of("P.M."),
        "Pixels that are constant where they are observed cannot be divided by their standard "
        "deviation (E.1): they are only centred, with a scale of 1.",
        "At full scale networks compute in bfloat16 (the inverse of NICE remains exact), also in "
        "E-steps; steps are compiled, and weights are updated in float32. E.1 names no precision.",
        "Early completions come from a training that stops after the first E-step, with the same "
        "seed: it is identical to the beginning of the longer one.",
    )

    def parts(self) -> list[str]:
        """Return both times of every kind of missingness."""
        return [f"{cell}, {when}" for when in (FIRST, LAST) for cell in self.cells]

    def run(self, part: str, place: Place) -> Found:
        """Train up to the first E-step, or to the end."""
        cell, when = part.split(", ")
        found = embedded_digits(large=False) if self.embedded else mnist(place)
        digits = found.train[: self.digits]
        observed = mechanism_of(cell)(digits, SEED)
        training = self.training.first_round if when == FIRST else self.training
        with timed() as taken:
            trained = training.trained(digits, observed, place, SEED)
        return _found(trained, digits, observed, taken)

    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return errors and acceptance; write the imputed digits and the acceptance's course."""
        text = "RMSE of imputed training pixels, pixels in [0, 1].\n\n"
        columns = [self._when(FIRST), self._when(LAST), "mean of observed pixels", "seconds in all"]
        text += table("", columns, ((cell, self._errors(found, cell)) for cell in self.cells))
        there = [cell for cell in self.cells if f"{cell}, {LAST}" in found]
        if there:
            text += "\nAcceptance rate of proposals, by E-step.\n\n" + self._accepted(found, there)
            text += f"\n![acceptance and loss]({self._curves(found, there, place.output).name})\n"
        for cell in self.cells:
            ends = {when: found.get(f"{cell}, {when}") for when in (FIRST, LAST)}
            strips = list(self._strips({w: own for w, own in ends.items() if own is not None}))
            if strips:
                path = place.output / f"{file_name(cell)}.png"
                write_strips(path, strips)
                text += f"\n## {cell}\n\n![imputed training digits]({path.name})\n"
        return text

    def _when(self, when: str) -> str:
        own = self.training
        epoch = own.every if when == FIRST else (own.epochs - 1) // own.every * own.every
        return f"after epoch {epoch:,}"

    def _errors(self, found: Mapping[str, Found], cell: str) -> list[str]:
        ends = [found.get(f"{cell}, {when}") for when in (FIRST, LAST)]
        errors = ["" if own is None else f"{own.numbers['RMSE']:.4f}" for own in ends]
        there = [own.numbers for own in ends if own is not None]
        if not there:
            return []
        seconds = sum(own["seconds"] for own in there)
        return [*errors, f"{there[0]['RMSE of the mean']:.4f}", f"{seconds:.0f}"]

    def _accepted(self, found: Mapping[str, Found], cells: Sequence[str]) -> str:
        rates = [found[f"{cell}, {LAST}"].numbers["acceptance"] for cell in cells]
        lines = [
            (f"after epoch {self.training.every * number:,}", [f"{rate:.4f}" for rate in row])
            for number, row in enumerate(zip(*rates, strict=True), 1)
        ]
        return table("", cells, lines)

    def _strips(self, ends: Mapping[str, Found]) -> list[tuple[str, Bytes]]:
        if not ends:
            return []
        arrays = next(iter(ends.values())).arrays
        imputed = [(self._when(when), own.arrays["completed"]) for when, own in ends.items()]
        return [("seen", arrays["seen"]), *imputed, ("truth", arrays["truth"])]

    def _curves(self, found: Mapping[str, Found], cells: Sequence[str], output: Path) -> Path:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.7), layout="constrained")
        panels: Any = figure.subplots(1, 2)
        accepted, loss = panels
        for cell in cells:
            own = found[f"{cell}, {LAST}"]
            rates = own.numbers["acceptance"]
            epochs = self.training.every * np.arange(1, len(rates) + 1)
            # The same colour, whichever cells are there.
            colour = f"C{list(self.cells).index(cell)}"
            accepted.plot(epochs, rates, marker="o", markersize=3, label=cell, color=colour)
            losses = own.arrays["losses"]
            loss.plot(np.arange(1, len(losses) + 1), losses, lw=1, color=colour)
        accepted.set(xlabel="epoch", ylabel="acceptance rate of proposals")
        accepted.set_ylim(bottom=0, top=1.1 * max(accepted.get_ylim()))
        loss.set(xlabel="epoch", ylabel="loss, nats per digit")
        for panel in (accepted, loss):
            panel.xaxis.get_major_locator().set_params(integer=True)
        figure.legend(loc="outside lower center", ncols=len(cells), fontsize=8)
        path = output / "training.png"
        write_figure(path, figure, dpi=120)
        return path


def _found(trained: Trained, digits: Pixels, observed: Seen, taken: dict[str, float]) -> Found:
    completed = trained.completed.reshape(digits.shape)
    seen = observed.sum(0).clip(1)
    typical = np.broadcast_to(np.where(observed, digits, 0).sum(0) / seen, digits.shape)
    numbers: dict[str, Any] = {
        "RMSE": round(reconstruction_rmse(digits, completed, ~observed), 5),
        "RMSE of the mean": round(reconstruction_rmse(digits, typical, ~observed), 5),
        "acceptance": [round(float(rate), 5) for rate in trained.acceptance],
        **taken,
    }
    whole = as_bytes(digits[:SHOWN])
    arrays = {"truth": whole, "seen": covered(whole, observed[:SHOWN])}
    arrays |= {"completed": as_bytes(completed[:SHOWN])}
    return Found(numbers, arrays | {"losses": trained.losses})


def at(name: str, scale: str) -> TrainingProgress:
    """Return the experiment at a scale."""
    del name
    if scale == "full":
        return TrainingProgress(FlowOfHoledDigits(precision="bfloat16", compiled=True))
    if scale == "laptop":
        # A hundredth of the steps, ten times as long: 19 E-steps as in the paper.
        short = FlowOfHoledDigits(200, 100, 5, 50, proposals=300, learning_rate=1e-4)
        return TrainingProgress(short, digits=1_000)
    tiny = FlowOfHoledDigits(16, 8, 2, 4, proposals=10, learning_rate=1e-3)
    return TrainingProgress(tiny, digits=64, embedded=True)
