"""One PL-MCMC proposal on a flow of two dimensions, drawn step by step (3.2, B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.data import Incomplete
from plmcmc.experiments.markdown import table
from plmcmc.experiments.proposal.figure import draw_proposal
from plmcmc.experiments.study import Experiment, Found, Place
from plmcmc.flows import RealNVP, home, log_prob
from plmcmc.kernels import Metropolis, Perturb
from plmcmc.rng import Streams
from plmcmc.target import NormalAuxiliary, ProjectedLatentTarget
from plmcmc.training import fit_flow

Rows = NDArray[np.float64]
# How far the picture of the data reaches, and how many points it has.
WIDE, HIGH, POINTS = (-1.6, 2.6), (-1.1, 1.6), 161
TERMS = ("log q(y_O)", "log p(y_M; x_O)", "log det df/dz")


class Stop(NamedTuple):
    """One latent, and all that the target asks of it.

    Attributes:
        latent: z.
        decoded: y = f(z).
        completion: y with what is observed put in: (y_M; x_O).
        encoded: the completion's own latent.
        terms: of the log-density, by name.
    """

    latent: list[float]
    decoded: list[float]
    completion: list[float]
    encoded: list[float]
    terms: dict[str, float]


@dataclass(frozen=True)
class Proposal(Experiment):
    """Settings of the diagram: two moons, their height observed, their place along it missing.

    Args:
        rows: of the data that the flow is trained on.
        noise: deviation of the moons' width.
        couplings: of the flow.
        width: of its networks.
        epochs: of training, at most.
        height: what is observed, x_O.
        perturb: sigma_p, large enough to be seen.
        auxiliary: sigma_a, large enough to be seen.
        current: where the chain stands, as data: f(z).
        seed: of the data and the flow.
        drawn: seed of the proposal: one that goes far enough to be seen.
    """

    rows: int = 2000
    noise: float = 0.1
    couplings: int = 8
    width: int = 64
    epochs: int = 150
    height: float = 0.3
    perturb: float = 0.7
    auxiliary: float = 0.3
    current: tuple[float, float] = (0.95, -0.15)
    seed: int = 0
    drawn: int = 3

    readings: ClassVar[Sequence[str]] = (
        "The paper's diagram is a sketch; this one uses a RealNVP trained on two moons, and one "
        "proposal from a point chosen for visibility.",
        "sigma_p and sigma_a are larger than in the paper's experiments: steps of .01 would not "
        "be visible.",
    )

    def parts(self) -> list[str]:
        """Return the only part."""
        return ["proposal"]

    def run(self, part: str, place: Place) -> Found:
        """Train the flow, propose once, and take the proposal apart."""
        del part
        flow, epochs = self._trained(place)
        target = ProjectedLatentTarget(flow, self._seen(flow), NormalAuxiliary(self.auxiliary))
        kernel = Metropolis(target, Perturb(self.perturb))
        streams = Streams.of_rows(self.drawn, "proposal", 1, device=place.device)
        with torch.no_grad():
            state = kernel.init(home(flow).bring(torch.tensor([self.current], dtype=torch.float64)))
            proposed, _ = kernel.propose(state, streams)
            stops = [taken_apart(target, own.position) for own in (state, proposed)]
            pictures = self._pictures(target)
        now, new = stops
        log_ratio = sum(new.terms[name] - now.terms[name] for name in TERMS)
        numbers = {
            "log ratio": log_ratio,
            "accept probability": float(np.exp(min(0.0, log_ratio))),
            "x_O": self.height,
            "epochs": epochs,
            "current": now._asdict(),
            "proposed": new._asdict(),
        }
        return Found(numbers, pictures)

    def _trained(self, place: Place) -> tuple[Any, int]:
        """Return the flow, and for how many epochs it was trained."""
        flow = RealNVP(2, couplings=self.couplings, width=self.width, random_state=self.seed).to(
            place.device
        )
        data = two_moons(self.rows, self.noise, self.seed)
        fitted = fit_flow(
            flow,
            data.astype(np.float32),
            epochs=self.epochs,
            noise=0.02,
            random_state=self.seed,
            progress=place.progress,
        )
        # The ratio is of differences: float64 tells them to the last digits shown.
        return flow.double().eval(), len(fitted.train)

    def _seen(self, flow: Any) -> Incomplete:
        where = home(flow)
        row = [[np.nan, self.height]]
        return Incomplete.of(row, dtype=where.dtype, device=where.device)

    def _pictures(self, target: ProjectedLatentTarget) -> dict[str, Rows]:
        """Return densities on grids, and the line of what is observed as latents see it."""
        across, up = np.linspace(*WIDE, POINTS), np.linspace(*HIGH, POINTS)
        plane = np.stack(np.meshgrid(across, up), -1).reshape(-1, 2)
        line = np.stack([across, np.full_like(across, self.height)], 1)
        where = home(target.flow)
        plane_at, line_at = (where.bring(torch.as_tensor(own)) for own in (plane, line))
        along = log_prob(target.flow, line_at).exp().cpu().numpy()
        return {
            "across": across,
            "up": up,
            "density": log_prob(target.flow, plane_at).exp().cpu().numpy().reshape(POINTS, POINTS),
            # Of p(y_M | x_O): what a chain's completions are distributed as.
            "conditional": along / np.trapezoid(along, across),
            "line": target.flow.to_latent(line_at)[0].cpu().numpy(),
        }

    def report(self, found: Mapping[str, Found], place: Place) -> str:
        """Return the ratio term by term, and draw the diagram."""
        own = found[self.parts()[0]]
        now, new = (Stop(**own.numbers[name]) for name in ("current", "proposed"))
        path = place.output / "proposal.png"
        trained = self._told(own)
        draw_proposal(path, own, trained)
        rows = [(name, [_signed(value) for value in _values(now, new, name)]) for name in TERMS]
        log_ratio = own.numbers["log ratio"]
        rows.append(("log ratio", ["", "", _signed(log_ratio)]))
        text = table("", ["current", "proposed", "difference"], rows)
        chance = own.numbers["accept probability"]
        text += (
            "\nThe perturbation is symmetric and does not enter the ratio: accepted with "
            "probability "
        )
        return text + f"{chance:.3f}.\n\nThe flow: {trained}.\n\n![One proposal]({path.name})\n"

    def _told(self, own: Found) -> str:
        """Return what the flow is, and for how long it was trained."""
        return (
            f"a RealNVP of {self.couplings} couplings, trained for {own.numbers['epochs']} epochs "
            f"on {self.rows:,} points of two moons"
        )


def taken_apart(target: ProjectedLatentTarget, latent: Tensor) -> Stop:
    """Return the steps of the target at one latent `(1, 2)`: decode, project, encode."""
    decoded, log_det = target.flow.to_data(latent)
    completion = target.data.project(decoded)
    encoded, _ = target.flow.to_latent(completion)
    terms = (
        target.auxiliary.log_prob(decoded, target.data),
        log_prob(target.flow, completion),
        log_det,
    )
    named = {name: float(value) for name, value in zip(TERMS, terms, strict=True)}
    latents = (own[0].tolist() for own in (latent, decoded, completion, encoded))
    return Stop(*latents, terms=named)


def two_moons(rows: int, noise: float, seed: int) -> Rows:
    """Return two half circles that reach into one another, with normal noise."""
    rng = np.random.default_rng(seed)
    angle, lower = rng.uniform(0, np.pi, rows), rng.random(rows) < 0.5
    across = np.where(lower, 1 - np.cos(angle), np.cos(angle))
    up = np.where(lower, 0.5 - np.sin(angle), np.sin(angle))
    return np.stack([across, up], 1) + noise * rng.standard_normal((rows, 2))


def _values(now: Stop, new: Stop, name: str) -> tuple[float, float, float]:
    return now.terms[name], new.terms[name], new.terms[name] - now.terms[name]


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def at(name: str, scale: str) -> Proposal:
    """Return the diagram at a scale; only the smoke test's flow is smaller, and trained less."""
    del name
    # Some seconds: with less of it, two moons are one blob.
    return Proposal(couplings=6, width=32, epochs=100) if scale == "smoke" else Proposal()
