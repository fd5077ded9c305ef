"""Does the auxiliary density bully the chains? Decisions that a flat one would overturn (E.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plmcmc.diagnostics import Decisions as Decided
from plmcmc.diagnostics import decision_study
from plmcmc.experiments.cache import write_figure
from plmcmc.experiments.digits.complete_flow import FLOW_READINGS
from plmcmc.experiments.digits.masked import MaskedDigit, masked_digit
from plmcmc.experiments.efficiency.figures import envelopes, middle_and_spread
from plmcmc.experiments.markdown import over_replications, table, with_error
from plmcmc.experiments.readings import MIXTURE, WHITENED
from plmcmc.experiments.study import Experiment, Found, Place, more, timed
from plmcmc.posterior.methods import Metropolis
from plmcmc.target import NormalAuxiliary

Curve = NDArray[np.float64]
# A decision of the chain, and the share of chains that took it.
KINDS = ("accepted", "rejected")
# Stretches of proposals that curves are drawn over.
PIECES = 80
WINDOWS = {"first tenth": (0.0, 0.1), "last tenth": (0.9, 1.0), "all": (0.0, 1.0)}
PAPER = (
    "The paper (E.4): with sigma_a 10^-3 the two are likely to agree, yet there is a substantial "
    "probability that the auxiliary density alters a decision. It gives no numbers."
)


@dataclass(frozen=True)
class Decisions(Experiment):
    """Settings of the study: the chains of section 6.3, judged by a flat auxiliary density.

    Args:
        task: the digit, its mask and the flow.
        proposals: of every chain.
        chains: that shares are taken over.
        perturb: sigma_p (E.3).
        resample: sigma_r (E.3).
        auxiliary: sigma_a of the chains that are followed, in whitened units.
        replications: with chains of their own.
    """

    task: MaskedDigit = field(default=MaskedDigit())
    proposals: int = 2000
    chains: int = 100
    perturb: float = 0.01
    resample: float = 1.0
    auxiliary: float = 1e-3
    replications: int = more(10)

    readings: ClassVar[Sequence[str]] = (
        "The paper does not say how many chains and proposals its figure uses: 100 chains, ten "
        "times, as in 6.3, and 2,000 proposals, as in D.3.",
        "A decision is overturned with the probability that the other density would decide "
        "differently with the same uniform random number: P(u >= other | u < own) where a "
        "proposal was accepted.",
        "Chains start at samples of the flow, as in E.3, and must first find the observed pixels: "
        "early and late proposals are reported separately.",
        WHITENED,
        MIXTURE,
        *FLOW_READINGS,
    )

    def parts(self) -> list[str]:
        """Return every replication."""
        return [f"replication {number}" for number in range(self.replications)]

    def run(self, part: str, place: Place) -> Found:
        """Follow the chains of one replication."""
        case = self.task.case(place)
        with timed() as taken:
            found = decision_study(
                case.flow,
                case.row,
                method=Metropolis(self.perturb, self.resample, NormalAuxiliary(self.auxiliary)),
                proposals=self.proposals,
                chains=self.chains,
                random_state=int(part.removeprefix("replication ")),
                progress=place.progress,
            )
        curves = curves_of(found)
        numbers = {
            f"{kind}, {window}": share(curves, kind, *span)
            for window, span in WINDOWS.items()
            for kind in KINDS
        }
        accepted = round(float(found.acceptance.mean()), 5)
        return Found(numbers | {"acceptance": accepted} | taken, curves)

    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return averages, early and late; draw both curves."""
        runs = [found[part] for part in self.parts() if part in found]
        path = place.output / "decisions.png"
        draw(path, [run.arrays for run in runs])
        text = f"{PAPER}\n\nProbability that a flat auxiliary density overturns a decision: "
        text += f"{over_replications([len(runs)])}.\n\n"
        text += table("", [*WINDOWS], _rows(runs))
        accepted = with_error([run.numbers["acceptance"] for run in runs])
        text += f"\nAcceptance rate over all proposals: {accepted}.\n\n"
        text += f"{envelopes([len(runs)])}\n\n"
        return text + f"![Decisions overturned, by proposal]({path.name})\n"


def curves_of(found: Decided) -> dict[str, Curve]:
    """Return, for each kind of decision, the share of chains that took it and that is overturned.

    Summed over chains and divided by all of them: proposals that nobody accepted then count for
    nothing, where their mean would be NaN.
    """
    taken = {"accepted": found.acceptance, "rejected": 1 - found.acceptance}
    overturned = {"accepted": found.accepted_overturned, "rejected": found.rejected_overturned}
    curves = {f"{kind}, taken": own for kind, own in taken.items()}
    return curves | {
        f"{kind}, overturned": np.where(taken[kind] > 0, taken[kind] * own, 0.0)
        for kind, own in overturned.items()
    }


def share(curves: Mapping[str, Curve], kind: str, low: float, high: float) -> float | None:
    """Return how many of the decisions of a kind are overturned, from one share of the run on."""
    count = len(curves[f"{kind}, taken"])
    first = round(low * count)
    part = slice(first, max(first + 1, round(high * count)))
    taken, overturned = (curves[f"{kind}, {own}"][part].sum() for own in ("taken", "overturned"))
    return round(float(overturned / taken), 5) if taken > 0 else None


def _rows(runs: Sequence[Found]) -> Iterator[tuple[str, list[str]]]:
    for kind in KINDS:
        values = [[run.numbers[f"{kind}, {window}"] for run in runs] for window in WINDOWS]
        yield kind, [with_error(own for own in value if own is not None) for value in values]


def draw(path: Path, runs: Sequence[Mapping[str, Curve]]) -> None:
    """Draw both curves, over short stretches of proposals, with one deviation of replications."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.3), layout="constrained")
    axes: Any = figure.add_subplot()
    proposals = len(runs[0]["accepted, taken"])
    edges = np.linspace(0, 1, min(PIECES, proposals) + 1)
    places = (edges[:-1] + edges[1:]) / 2 * proposals
    for kind in KINDS:
        values = [[share(run, kind, *span) for span in pairwise(edges)] for run in runs]
        curves = np.array(values, dtype=np.float64)
        there = np.isfinite(curves).any(0)
        curves, across = curves[:, there], places[there]
        middle, spread = middle_and_spread(curves)
        (line,) = axes.plot(across, middle, label=f"{kind} proposals")
        low, high = np.maximum(middle - spread, 0), np.minimum(middle + spread, 1)
        axes.fill_between(across, low, high, color=line.get_color(), alpha=0.22, linewidth=0)
    axes.set(
        xlabel="proposals",
        ylabel="probability of being overturned",
        ylim=(0, 1),
        xlim=(0, proposals),
    )
    axes.grid(alpha=0.25)
    # Below, where it covers no envelope.
    title = envelopes([len(runs)])
    options = {"ncols": 2, "title": title, "fontsize": 8, "title_fontsize": 8}
    figure.legend(loc="outside lower center", **options)
    write_figure(path, figure, dpi=120)


def at(name: str, scale: str) -> Decisions:
    """Return the study at a scale."""
    del name
    study = Decisions(masked_digit(scale))
    if scale == "full":
        return study
    if scale == "laptop":
        return replace(study, replications=3)
    return replace(study, proposals=30, chains=5, replications=2)
