"""How fast chains find the conditional mean of one masked digit: four studies (6.3, E.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from plmcmc.chains import Unconditional
from plmcmc.experiments.digits.complete_flow import FLOW_READINGS
from plmcmc.experiments.digits.masked import Case, MaskedDigit, masked_digit
from plmcmc.experiments.efficiency.averages import Averages, follow
from plmcmc.experiments.efficiency.captions import (
    PAPER,
    about,
    converged_caption,
    ends_of,
    table_of,
)
from plmcmc.experiments.efficiency.converged import Converged, Truth
from plmcmc.experiments.efficiency.figures import draw_curves, draw_means, envelopes
from plmcmc.experiments.readings import MIXTURE, WHITENED
from plmcmc.experiments.study import Experiment, Found, Place, more, timed
from plmcmc.posterior import Method, condition
from plmcmc.posterior.methods import Gibbs, Metropolis, Pullback
from plmcmc.target import FlatAuxiliary, NormalAuxiliary

CONVERGED, GIBBS, OURS, DEFAULT = "converged mean", "Gibbs", "plmcmc", "default"
# Perturbations that are never mixed with fresh draws.
ALONE = "sigma_p alone"
# Below this deviation of the auxiliary, float32 cannot tell y_O from x_O.
FINE = 1e-5
# Of one PL-MCMC proposal.
PASSES = 2


@dataclass(frozen=True)
class Efficiency(Experiment):
    """Settings of one study: PL-MCMC with one scale varied, Gibbs, and our default sampler (E.3).

    Args:
        varied: `"sigma_a"`, `"sigma_p"`, `"sigma_p alone"` (without fresh draws) or `"sigma_r"`.
        task: the digit, its mask and the flow.
        converged: how the mean is found that chains should come to.
        proposals: of every PL-MCMC chain; others have as many flow passes, two for each.
        chains: that a mean is taken over.
        perturb: sigma_p where it is not varied.
        resample: sigma_r where it is not varied; half of the proposals are fresh draws.
        auxiliary: sigma_a where it is not varied, in whitened units.
        moments: points of each curve.
        warmup: trajectories that our default tunes for; None leaves it to the sampler.
        trajectories: that our default makes at least, though its warm-up may take all passes.
        scales: what is varied; None is infinite.
        replications: of every variant.
    """

    varied: str = "sigma_a"
    task: MaskedDigit = field(default=MaskedDigit())
    converged: Converged = field(default=Converged())
    proposals: int = 2000
    chains: int = 100
    perturb: float = 0.01
    resample: float = 1.0
    auxiliary: float = 1e-3
    moments: int = 200
    warmup: int | None = None
    trajectories: int = 20
    scales: Sequence[float | None] = more((None, 10**-1.5, 1e-3, 1e-6))
    replications: int = more(10)

    readings: ClassVar[Sequence[str]] = (
        "The number of proposals is shown only in figures, which are missing from the text: "
        "2,000, as for imputation in D.3.",
        "The values of sigma_p and sigma_r are also shown only in figures: here sigma_p is .001, "
        ".01, .1 and 1; sigma_r is .1, .5 (from D.3), 1 and 1.814 (from E.1).",
        "The paper does not say which digit is used, or how large the squares of the checkerboard "
        "are: here the first test digit, with squares of 4 x 4 pixels, 384 of 784 hidden.",
        "RMSE is computed over the hidden pixels, from the mean of 100 chains' completions at "
        "that proposal, not from running averages; pixels are in [0, 1], and nothing is clamped.",
        "The acceptance rate is that of the proposals since the previous point, over all chains.",
        WHITENED,
        "With sigma_a 10^-6, which float32 cannot resolve, chains run in float64.",
        MIXTURE,
        "One Gibbs proposal redraws one randomly chosen hidden pixel from a normal distribution "
        "fitted to the training set.",
        "For constant pixels, the Gibbs proposal has no standard deviation to use (E.3): it uses "
        "1, as in whitening, which is the full range of a pixel.",
        "PL-MCMC starts at a sample of the flow, without inserting observed pixels; Gibbs and "
        "plmcmc's default sampler start at the hidden pixels of the same sample.",
        "A gradient counts as two additional flow passes, a forward-mode product as one: the "
        "warm-up of plmcmc's default sampler is therefore counted, and its curve begins where the "
        "warm-up ends.",
        *FLOW_READINGS,
    )

    def parts(self) -> list[str]:
        """Return the converged mean, and every replication of every variant."""
        names = [*self.variants(), GIBBS, OURS]
        rounds = range(self.replications)
        return [CONVERGED, *(f"{name}, replication {own}" for own in rounds for name in names)]

    def variants(self) -> dict[str, Metropolis]:
        """Return PL-MCMC with each scale, by name."""
        named = {f"{self.varied} {shown(scale)}": self._varied(scale) for scale in self.scales}
        return named | ({DEFAULT: self._default} if self.varied == ALONE else {})

    @property
    def reference(self) -> str:
        """The name of the variant whose scales are all as the paper has them by default."""
        named = [name for name, method in self.variants().items() if method == self._default]
        return named[0] if named else ""

    @property
    def _default(self) -> Metropolis:
        return Metropolis(self.perturb, self.resample, NormalAuxiliary(self.auxiliary))

    def _varied(self, scale: float | None) -> Metropolis:
        if self.varied == "sigma_a":
            auxiliary = FlatAuxiliary() if scale is None else NormalAuxiliary(scale)
            return replace(self._default, auxiliary=auxiliary)
        changes: dict[str, dict[str, Any]] = {
            "sigma_p": {"perturb": scale},
            ALONE: {"perturb": scale, "resample": None},
            "sigma_r": {"resample": scale},
        }
        if self.varied not in changes:
            raise ValueError(f"varied must be sigma_a or one of {[*changes]}; got {self.varied!r}")
        return replace(self._default, **changes[self.varied])

    def run(self, part: str, place: Place) -> Found:
        """Follow the chains of one replication, or find the mean that they should come to."""
        case = self.task.case(place)
        truth = self.converged.truth(case, place)
        if part == CONVERGED:
            return self._converged(case, truth)
        name, number = part.split(", ")
        with timed() as taken:
            averages = self._follow(name, int(number.removeprefix("replication ")), case, place)
        pixels = case.pixels(averages.means)
        curves = {
            "proposals": averages.proposals,
            "passes": averages.passes,
            "RMSE": case.error(pixels, case.truth),
            "RMSE to the converged mean": case.error(pixels, truth.mean),
            "acceptance": averages.acceptance,
        }
        picture = np.where(case.observed, case.truth, pixels[-1]).astype(np.float32)
        return Found(ends_of(curves) | taken, curves | {"mean": picture})

    def _converged(self, case: Case, truth: Truth) -> Found:
        numbers: dict[str, Any] = {
            "RMSE": round(float(case.error(truth.mean, case.truth)), 5),
            "noise": round(truth.noise(case, self.chains), 5),
        }
        pictures = {"digit": case.truth, "observed": case.observed, **truth._asdict()}
        return Found(numbers | truth.told(), pictures)

    def _follow(self, name: str, seed: int, case: Case, place: Place) -> Averages:
        method, flow = self._method(name, case), case.flow
        if _fine(method):
            flow = flow.double()
        return follow(
            condition(flow, case.row),
            method,
            chains=self.chains,
            passes=PASSES * self.proposals,
            moments=self.moments,
            start=Unconditional(projected=False),
            seed=seed,
            warmup=self.warmup if name == OURS else None,
            least=self.trajectories if name == OURS else 0,
            progress=place.progress,
        )

    def _method(self, name: str, case: Case) -> Method:
        if name == OURS:
            return Pullback()
        if name == GIBBS:
            # The training set's mean and deviation, in whitened units.
            return Gibbs(torch.zeros(len(case.mean)), torch.ones(len(case.mean)))
        return self.variants()[name]

    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return a table of where curves end; draw curves, and the means that they end at."""
        names = [*self.variants(), GIBBS, OURS]
        runs = {name: self._runs(found, name) for name in names}
        runs = {name: own for name, own in runs.items() if own}
        converged = found.get(CONVERGED)
        text = f"{PAPER[self.varied]}\n\n"
        if runs:
            counts = [len(own) for own in runs.values()]
            text += about(counts)
            text += table_of(runs) + "\n"
            path = place.output / "curves.png"
            passes = PASSES * self.proposals
            draw_curves(path, runs, self.reference, passes, converged, self.chains)
            text += f"{envelopes(counts)}\n\n![Curves]({path.name})\n\n"
        if converged is not None:
            taken = (self.converged.chains, self.converged.draws)
            text += converged_caption(converged, taken, self.chains) + "\n"
            path = place.output / "means.png"
            draw_means(path, runs, converged)
            text += f"![The digit and the chains' means]({path.name})\n\n"
        return text

    def _runs(self, found: Mapping[str, Found], name: str) -> list[Found]:
        parts = (f"{name}, replication {own}" for own in range(self.replications))
        return [found[part] for part in parts if part in found]


def shown(scale: float | None) -> str:
    """Return a scale as the paper writes it.

    Example:
        >>> shown(None), shown(10**-1.5), shown(1e-6), shown(0.01), shown(1.814)
        ('infinity', '10^-1.5', '10^-6', '0.01', '1.814')
    """
    if scale is None:
        return "infinity"
    power = round(math.log10(scale), 6)
    half = (2 * power).is_integer() and (power % 1 != 0 or power < -2)
    return f"10^{power:g}" if half else f"{scale:g}"


def _fine(method: Method) -> bool:
    auxiliary = getattr(method, "auxiliary", None)
    return isinstance(auxiliary, NormalAuxiliary) and bool(auxiliary.scale < FINE)


STUDIES: dict[str, tuple[str, Sequence[float | None]]] = {
    "efficiency-auxiliary": ("sigma_a", (None, 10**-1.5, 1e-3, 1e-6)),
    "efficiency-perturbation": ("sigma_p", (0.001, 0.01, 0.1, 1.0)),
    "efficiency-no-resample": (ALONE, (0.001, 0.01, 0.1, 1.0)),
    "efficiency-resample": ("sigma_r", (0.1, 0.5, 1.0, 1.814)),
}


def at(name: str, scale: str) -> Efficiency:
    """Return a study at a scale."""
    varied, scales = STUDIES[name]
    study = Efficiency(varied, masked_digit(scale), scales=scales)
    if scale == "full":
        return study
    if scale == "laptop":
        return replace(study, converged=Converged(20, 200))
    return replace(
        study,
        converged=Converged(4, 6, warmup=4),
        proposals=20,
        chains=5,
        moments=10,
        warmup=4,
        trajectories=4,
        replications=1,
    )
