"""Table 1: digits completed by what was learned from incomplete digits (6.1, E.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from plmcmc.chains import described
from plmcmc.experiments.digits.filler import Budget
from plmcmc.experiments.digits.fillers import FILLERS
from plmcmc.experiments.digits.judge import Judge, kept_scores, scored
from plmcmc.experiments.digits.missing import MECHANISMS, masks_of, mechanism_of
from plmcmc.experiments.digits.rows import TOLD, Numbers, judges
from plmcmc.experiments.markdown import row_label, table
from plmcmc.experiments.readings import LEVELS, MIXTURE, WHITENED, not_reduced
from plmcmc.experiments.sources import Digits, embedded_digits, mnist
from plmcmc.experiments.study import BY_PART, Experiment, Found, Place, more, timed

# The cells that bars are set for come first.
CELLS = tuple(f"{kind} {rate}" for rate in (0.6, 0.3, 0.9) for kind in MECHANISMS)
INCOMPARABLE = (
    "**Our FIDs are of a classifier trained here: they can be compared with each other, not with "
    "the paper's.**"
)


@dataclass(frozen=True)
class Table1(Experiment):
    """Settings of the table; defaults are the paper's."""

    budget: Budget = field(default=Budget(), metadata=BY_PART)
    digits: int | None = None
    test_digits: int | None = None
    lenet_epochs: int = 10
    embedded: bool = False
    tests: int = 5
    cells: Sequence[str] = more(CELLS)
    methods: Sequence[str] = more(tuple(FILLERS))
    trainings: int = more(3)

    readings: ClassVar[Sequence[str]] = (
        *masks_of("S.O.", "P.M."),
        LEVELS,
        "E.1 writes sigma_p for the standard deviation of resampling: read as sigma_r, which is "
        "1.814, and .5 from the E-step after epoch 500 on.",
        not_reduced("E.1", "1.814", "logistic"),
        WHITENED,
        MIXTURE,
        "Pixels that are constant over all digits are whitened with a scale of 1.",
        "Completions of test digits are clamped to the observed range of each pixel, like those "
        "of training digits (E.1).",
        "The paper does not say where chains of E-steps and of tests start: here at samples of "
        "the flow at temperature 1, although 5.3 starts chains of the same flow at a reduced one.",
        "E.1 gives 2,000 proposals for tests only: E-steps have as many. There are 19 E-steps, "
        "after epochs 50 to 950; none follows the last epoch.",
        "Pixels are in [0, 1], without dequantising noise, which is not mentioned; RMSE is the "
        "mean over digits of each digit's RMSE (formula of E.1).",
        "Means are those of the observed pixels of the training digits. I.M. hides every pixel "
        "with the same probability, not an exact number of them.",
        "The paper's errors of single draws are over its 10 chains, too: here chains are averaged "
        "first, and errors are over trainings or test masks.",
        "FID compares completed with complete test digits, using features of a LeNet trained here "
        "on complete digits. The implementation that the paper cites compares with training digits "
        "by another network: its FIDs cannot be compared with ours, but ours can be compared with "
        "each other.",
        "At full scale networks compute in bfloat16 on any device, in training and in chains (the "
        "inverse of NICE remains exact), and weights are updated in float32. E.1 names no "
        "precision.",
        "MisGAN's networks, learning rates and moments are not printed, but E.1 names the public "
        "implementation and its defaults: ours have their sizes and rates. In its code the loss "
        "that beta weighs has no gradient for the generator of images; ours has one, as in "
        "MisGAN's own paper.",
        "6.1 calls MisGAN's imputation deterministic; its imputer takes noise, and so does ours.",
        "MisGAN is trained for fewer epochs than the paper's 500: the number is in the table.",
        "`plmcmc` is the paper's flow trained on smoothed digits with Hamiltonian chains "
        "(`data-hmc`) that continue from round to round, and sampled with such chains; the share "
        "of pixels at R-hat 1.1 or less is among the numbers. Its average is of all draws.",
    )

    def parts(self) -> list[str]:
        """Return a part for every cell, training and method."""
        return [
            f"{cell}, training {number}, {method}"
            for number in range(self.trainings)
            for cell in self.cells
            for method in self.methods
        ]

    def settings_of(self, part: str) -> dict[str, Any]:
        """Return what is hidden, and what the part's method takes of the budget."""
        cell, _, method = part.split(", ")
        return {"masks": repr(mechanism_of(cell))} | self._asked(method)

    def _asked(self, method: str) -> dict[str, Any]:
        return {name: getattr(self.budget, name) for name in FILLERS[method].asks}

    def run(self, part: str, place: Place) -> Found:
        """Train on one set of incomplete digits and complete all test sets."""
        cell, number, method = part.split(", ")
        seed, hide = int(number.removeprefix("training ")), mechanism_of(cell)
        digits = self._digits(place)
        judge = Judge.of(digits, self.lenet_epochs, place)
        anew, kept = place.begins(part), place.checkpoint(part)
        # No more than it asks for: its numbers depend on nothing else.
        budget: Any = SimpleNamespace(**self._asked(method))
        filler = FILLERS[method](budget, place, seed, kept / "training")
        with timed() as training:
            filler.fit(digits.train, hide(digits.train, seed))
        with timed() as testing:
            of = [self.settings(), self.settings_of(part), place.device.partition(":")[0]]
            numbers = kept_scores(
                kept / "tests.json",
                described([*of, judge.name, judge.truth, filler.trained]),
                [1000 * (seed + 1) + number for number in range(self.tests)],
                partial(scored, filler, judge, hide),
            )
        seconds = {"seconds of training": training["seconds"]}
        seconds["seconds in all"] = round(training["seconds"] + testing["seconds"], 1)
        told = {"classifier's accuracy": judge.accuracy, "classifier": judge.name}
        told |= filler.told
        first = {f"mean {key}": float(np.mean(own)) for key, own in numbers.items()}
        return Found(first | (seconds if anew else {}) | told | numbers)

    def _digits(self, place: Place) -> Digits:
        found = embedded_digits(large=False) if self.embedded else mnist(place)
        train, test = slice(self.digits), slice(self.test_digits)
        return Digits(
            found.train[train], found.train_labels[train], found.test[test], found.test_labels[test]
        )

    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return RMSE and FID of every cell, the paper's beside ours."""
        del place
        there = [cell for cell in self.cells if any(own.startswith(cell) for own in found)]
        numbers, text = Numbers(found, self.trainings), ""
        for place_in_line, score, caution in (
            (0, "RMSE", self._averaged),
            (4, "FID", INCOMPARABLE),
        ):
            text += f"## {score}\n\n{self._over(numbers)} {caution}\n\n"
            text += table("", there, numbers.rows(there, score, place_in_line)) + "\n"
        rows = (
            (row_label(method), numbers.told(there, method, "seconds in all", ".0f"))
            for method in self.methods
        )
        text += "## Seconds for a training and its tests\n\n" + table("", there, rows)
        rows = [(row_label(name), numbers.told(there, *own)) for name, own in TOLD.items()]
        if any(any(cells) for _, cells in rows):
            text += "\n## Other numbers\n\n" + table("", there, rows)
        return text + judges(found)

    def _over(self, numbers: Numbers) -> str:
        """Return what errors are over: masks of one training say nothing of another."""
        counts = {len(numbers.lines(cell, own)) for cell in self.cells for own in self.methods}
        masks = f"{self.tests} test masks of one training, which leave out how trainings differ"
        words = "Means with their standard errors over "
        if max(counts, default=0) > 1:
            alone = f"over {masks}" if self.tests > 1 else "there are none"
            return f"{words}trainings; where there is only one training, {alone}."
        if self.tests == 1:
            return "Values for a single test mask: there are no standard errors."
        return f"{words}{masks}."

    @property
    def _averaged(self) -> str:
        """What averages are of: more draws alone bring them nearer to the truth."""
        own = self.budget
        return (
            f"Averages are of {own.chains} draws for PL-MCMC (the paper's: 10) and of "
            f"{own.our_chains * own.our_draws} for ours (plmcmc)."
        )


def at(name: str, scale: str) -> Table1:
    """Return the experiment at a scale."""
    del name
    if scale == "full":
        return Table1(budget=Budget(misgan_epochs=100, precision="bfloat16", compiled=True))
    if scale == "laptop":
        ours: dict[str, Any] = {"our_every": 6, "our_warmup": 40, "our_draws": 20}
        ours |= {"our_epochs": 180, "our_falling": 0.0}
        budget = Budget(width=128, epochs=60, proposals=200, misgan_epochs=4, **ours)
        return Table1(
            budget=budget,
            digits=3000,
            test_digits=100,
            lenet_epochs=4,
            tests=2,
            cells=CELLS[:3],
            trainings=1,
        )
    return Table1(
        budget=SMOKE,
        digits=32,
        test_digits=6,
        lenet_epochs=1,
        embedded=True,
        tests=1,
        cells=CELLS[:1],
        trainings=1,
    )


SMOKE = Budget(
    width=8,
    epochs=4,
    proposals=4,
    chains=3,
    misgan_epochs=1,
    misgan_channels=8,
    our_epochs=2,
    our_every=1,
    our_warmup=4,
    our_draws=4,
)
