"""Images completed with Glow: CIFAR-10 without its middle (5.1), faces without a half (5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plmcmc.adaptation import Warmup
from plmcmc.chains import Unconditional, fingerprint
from plmcmc.data import CentreSquare, RightHalf
from plmcmc.experiments.algorithm1 import progression
from plmcmc.experiments.convergence import spent
from plmcmc.experiments.images.glow_flow import tiny, trained_before
from plmcmc.experiments.images.numbers import heights, numbers_of, pictures_of, rows_of
from plmcmc.experiments.images.readings import readings_of
from plmcmc.experiments.images.report import reported
from plmcmc.experiments.images.task import SEED, TASKS, Task, patches, samples, with_drawn
from plmcmc.experiments.pictures import as_bytes
from plmcmc.experiments.sources import Pixels
from plmcmc.experiments.study import Experiment, Found, Place, more, timed
from plmcmc.flows import Absolute, Preprocessed
from plmcmc.posterior import Draws, condition
from plmcmc.posterior.methods import Metropolis, Pullback
from plmcmc.target import NormalAuxiliary

SAMPLES, HALF = "samples", "right half"
DEFAULT, PAPER = "default", "Algorithm 1"
# Algorithm 1 from elsewhere: where CelebA's chains begin, or where the default sampler's do.
SAMPLED, EQUAL = "sampled starts", "equal starts"
STARTS = {SAMPLED: TASKS["celeba"].start, EQUAL: Unconditional()}
# Draws that the default's progression shows.
SHOWN = 9


@dataclass(frozen=True)
class Completion(Experiment):
    """Completions by Algorithm 1 as the paper runs it, and by the default sampler.

    Args:
        task: `"cifar"` or `"celeba"`.
        images: real ones, which numbers are of.
        drawn: images that the flow draws, to be completed and shown in place of the real ones.
        proposals: of Algorithm 1 (5.1, 5.2).
        kept_every: proposals between two states that are kept.
        shown_every: proposals from one picture of a progression to the next.
        perturb: deviation of the proposals, sigma_p (D.1, D.2).
        auxiliary: deviation of the auxiliary density, sigma_a, of values in [0, 1] (D.1, D.2).
        paper_chains: chains of Algorithm 1 for each image.
        draws: of each chain of the default sampler.
        chains: of the default sampler for each image.
        tuning: how it tunes.
        samples: unconditioned samples to draw.
        embedded: patches of photographs that come along, and a tiny flow of them.
        holes: sides of the missing square; none for the right half.
        ways: how images are completed.
        temperatures: of unconditioned samples.
    """

    task: str = "cifar"
    images: int = 8
    drawn: int = 0
    proposals: int = 25_000
    kept_every: int = 500
    shown_every: int = 3_000
    perturb: float = 0.01
    auxiliary: float = 1e-3
    paper_chains: int = 1
    draws: int = 70
    chains: int = 4
    tuning: Warmup = field(default=Warmup())
    samples: int = 32
    embedded: bool = False
    holes: Sequence[int] = more((8, 16))
    ways: Sequence[str] = more((DEFAULT, PAPER, SAMPLED))
    temperatures: Sequence[float] = more((1.0,))

    @property
    def readings(self) -> Sequence[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How the paper is read for this task."""
        return readings_of(self.task, embedded=self.embedded)

    def parts(self) -> list[str]:
        """Return unconditioned samples, then every hole completed in every way."""
        missing = [f"hole {side}" for side in self.holes] or [HALF]
        return [
            *(f"{SAMPLES}, temperature {heat:g}" for heat in self.temperatures),
            *(f"{name}, {way}" for way in self.ways for name in missing),
        ]

    def run(self, part: str, place: Place) -> Found:
        """Draw samples, or complete all images in one way."""
        what, way = part.split(", ")
        flow: Any = tiny(place) if self.embedded else trained_before(self._task.flow, place)
        told: dict[str, Any] = {"flow": fingerprint(*flow.state_dict().values())}
        if what == SAMPLES:
            return self._sampled(flow, float(way.removeprefix("temperature ")), told)
        images = self._images(flow, place)
        hide = RightHalf() if what == HALF else CentreSquare(int(what.removeprefix("hole ")))
        observed = hide(images)
        with timed() as taken:
            if way == DEFAULT:
                draws, initial = self._default(flow, images, observed, place), None
            else:
                draws, initial = self._paper(flow, images, observed, part, place)
        return self._found(flow, draws, images, initial, told | taken)

    @property
    def _task(self) -> Task:
        return TASKS[self.task]

    def _sampled(self, flow: Any, temperature: float, told: dict[str, Any]) -> Found:
        drawn = samples(flow, self.samples, temperature)
        finite = np.isfinite(drawn).reshape(len(drawn), -1).all(1).mean()
        pictures = as_bytes(drawn, flow.chain[0].levels - 1)
        return Found({"share that is finite": float(finite)} | told, {"samples": pictures})

    def _images(self, flow: Any, place: Place) -> Pixels:
        """Return real images, then those that the flow draws."""
        levels = flow.chain[0].levels
        count = self.images
        real = patches(count) if self.embedded else self._task.images(count, levels, place)
        return with_drawn(real, flow, self.drawn)

    def _default(self, flow: Any, images: Pixels, observed: Any, place: Place) -> Draws:
        return condition(flow, images, observed).sample(
            self.draws,
            chains=self.chains,
            method=Pullback(self.tuning),
            random_state=SEED,
            progress=place.progress,
        )

    def _paper(
        self, flow: Any, images: Pixels, observed: Any, part: str, place: Place
    ) -> tuple[Draws, Pixels]:
        """Return what Algorithm 1 draws, and where its first chains began."""
        task, levels = self._task, flow.chain[0].levels
        if task.absolute:
            flow = Preprocessed(list(flow.chain), Absolute(flow.flow)).eval()
        start = {PAPER: task.start, **STARTS}[part.split(", ")[1]]
        method = Metropolis(self.perturb, None, NormalAuxiliary(self.auxiliary * levels))
        return progression(
            condition(flow, images, observed),
            method,
            start,
            part,
            place,
            proposals=self.proposals,
            every=self.kept_every,
            chains=self.paper_chains,
            seed=SEED,
        )

    def _found(
        self, flow: Any, draws: Draws, images: Pixels, initial: Pixels | None, told: dict[str, Any]
    ) -> Found:
        levels, real = flow.chain[0].levels, slice(self.images)
        shown = slice(self.images if self.drawn else 0, None)
        own = rows_of(draws, real)
        curve = heights(flow, own.values)
        steps, labels = self._progression(draws, first=initial is not None)
        numbers = numbers_of(own, images[real], levels) | told | {"progress": labels}
        numbers["log p, last states, by image"] = curve[:, -1].mean(0).round(1).tolist()
        start = None if initial is None else initial[shown]
        pictures = pictures_of(rows_of(draws, shown), images[shown], levels, start, steps)
        return Found(numbers, {**pictures, "log p": curve.mean(0), "spent": spent(draws)})

    def _progression(self, draws: Draws, *, first: bool) -> tuple[list[int], list[str]]:
        """Return draws to show, and how far chains had come: in proposals, or else in passes."""
        count = draws.values.shape[1]
        if first:
            every = max(1, self.shown_every // self.kept_every)
            steps = sorted({*range(every - 1, count, every), count - 1})
            return steps, ["0", *(f"{(step + 1) * self.kept_every:,}" for step in steps)]
        steps = sorted({int(step) for step in np.linspace(0, count - 1, SHOWN).round()})
        return steps, [f"{passes:,.0f}" for passes in spent(draws)[steps]]

    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return tables of convergence, and write grids of pictures and traces."""
        # In the order of the parts, whichever was finished first.
        names = dict.fromkeys([*self.parts(), *found])
        return reported({name: found[name] for name in names if name in found}, place.output)


# CelebA (5.2, D.2): a picture every 1,000 proposals, samples at temperatures .5 and 1.
CELEBA: dict[str, Any] = {
    "task": "celeba",
    "shown_every": 1_000,
    "drawn": 4,
    "draws": 40,
    "holes": (),
    "ways": (DEFAULT, PAPER, EQUAL),
    "temperatures": (0.5, 1.0),
}
LAPTOP: dict[str, dict[str, Any]] = {
    "cifar": {"images": 2, "proposals": 3_000, "draws": 40, "holes": (8,), "shown_every": 500},
    "celeba": {"images": 1, "drawn": 1, "chains": 2, "draws": 8, "proposals": 2_000}
    | {"ways": (DEFAULT, PAPER), "shown_every": 500},
}
SMOKE: dict[str, dict[str, Any]] = {
    name: {"images": 2, "chains": 2, "draws": 4, "proposals": 12, "kept_every": 2}
    | {"tuning": Warmup(climb_steps=10, windows=(4,), stretches=(), most_turns=8)}
    | {"shown_every": 4, "samples": 8, "embedded": True}
    for name in TASKS
}
SMOKE["cifar"] |= {"holes": (2,)}
SMOKE["celeba"] |= {"drawn": 2}


def at(name: str, scale: str) -> Completion:
    """Return the experiment at a scale."""
    settings = CELEBA if name == "celeba" else {}
    smaller = {"full": {}, "laptop": LAPTOP[name], "smoke": SMOKE[name]}[scale]
    return Completion(**(settings | smaller))
