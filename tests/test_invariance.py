"""Every kernel leaves its target invariant, on every family of flows; planted bugs do not."""

from dataclasses import dataclass, replace

import pytest
import torch

import exact
from exact import AUXILIARY, FLOWS, begin, drift
from kernels import BIASED, EXACT
from plmcmc.data import Incomplete
from plmcmc.flows import Flow, log_prob
from plmcmc.kernels import (
    CrankNicolson,
    EllipticalSlice,
    Hamiltonian,
    Metropolis,
    Mixture,
    Perturb,
    Resample,
)
from plmcmc.rng import Streams
from plmcmc.target import Point, ProjectedLatentTarget, Warp

# Steps after which a kernel's chains must have moved by this much of a standard deviation: a chain
# that stands still is invariant too.
LEAST_DISPLACEMENT = 0.1
# Kernels that go far in a step, and pay for it, take fewer.
FAR = ("elliptical", "hamiltonian", "warped", "cycle", "latent-hmc", "table-hmc")
STEPS = dict.fromkeys(FAR, 12)


@pytest.fixture(scope="module", params=FLOWS)
def flow(request):
    return FLOWS[request.param]()


@pytest.fixture(scope="module")
def begun(flow):
    return begin(flow)


@pytest.mark.parametrize("name", EXACT)
def test_exact_kernels_stay_in_their_target(name, flow, begun):
    found = drift(begun, EXACT[name](flow, begun.data), steps=STEPS.get(name, exact.STEPS))
    assert found.worst < found.limit
    assert found.displacement > LEAST_DISPLACEMENT


@pytest.mark.parametrize("name", BIASED)
def test_biased_kernels_are_convicted(name):
    flow = FLOWS["realnvp"]()
    begun = begin(flow)
    kernel = BIASED[name](flow, begun.data)
    assert not kernel.exact
    found = drift(begun, kernel)
    assert found.worst > found.limit


@dataclass(frozen=True)
class PlantedTarget:
    """The projected latent target with one mistake."""

    flow: Flow
    data: Incomplete
    log_det_sign: int = 1
    projects: bool = True

    passes = 2
    free = None

    def start(self, y):
        return self.flow.to_latent(y)[0]

    def __call__(self, position):
        y, log_det = self.flow.to_data(position)
        completion = self.data.project(y)
        at = completion if self.projects else y
        log_density = AUXILIARY.log_prob(y, self.data) + log_prob(self.flow, at)
        return Point(position, completion, log_density + self.log_det_sign * log_det)


class Uncorrected(Resample):
    """A proposal that forgets what it owes."""

    def move(self, like, streams):
        return super().move(like, streams)._replace(precision=0.0)


class SharedStreams(Streams):
    """One displacement for all rows."""

    def normal(self, like):
        return super().normal(like)[:1].expand_as(like)


class Reversed:
    """The right amount owed, with the wrong sign."""

    def __init__(self, proposal):
        self.proposal = proposal

    def __call__(self, position, streams):
        new, correction = self.proposal(position, streams)
        return new, -correction


def right(flow, data):
    return ProjectedLatentTarget(flow, data, AUXILIARY)


class NoKinetic(Hamiltonian):
    """Trajectories whose change of kinetic energy is forgotten."""

    def _trajectory(self, state, u, momentum, angle):
        end, last, _ = super()._trajectory(state, u, momentum, angle)
        return end, last, momentum


class Slopeless(Warp):
    """Warped coordinates whose slope is left out of the density."""

    def outward(self, v):
        y, log_slope = super().outward(v)
        return y, torch.zeros_like(log_slope)


def no_kinetic(flow, data):
    right = EXACT["hamiltonian"](flow, data)
    return NoKinetic(right.target, right.frame, right.step_size, right.turns)


def slopeless(flow, data):
    right = EXACT["warped"](flow, data)
    warp = right.target.warp
    bent = Slopeless(warp.shift, warp.scale, warp.skew, warp.tail)
    return replace(right, target=replace(right.target, warp=bent))


def crooked_jump(flow, data):
    right = EXACT["jump"](flow, data)
    wide = right.proposal.wide
    crooked = replace(wide, inverse=1.5 * wide.inverse)
    return replace(right, proposal=replace(right.proposal, wide=crooked))


def unweighed_jump(flow, data):
    """A jump to an old draw that owes nothing for how many of them are near."""
    right = EXACT["jump"](flow, data)
    narrow = right.proposal.narrow
    wider = replace(narrow, inverse=0.5 * narrow.inverse)
    return replace(right, proposal=replace(right.proposal, narrow=wider))


PLANTED = {
    "no kinetic energy": no_kinetic,
    "a warp without its slope": slopeless,
    "a jump corrected in another frame": crooked_jump,
    "a jump near old draws, corrected as if they were wider": unweighed_jump,
    "log-det dropped": lambda f, d: Metropolis(PlantedTarget(f, d, log_det_sign=0), Perturb(0.3)),
    "log-det sign flipped": lambda f, d: Metropolis(
        PlantedTarget(f, d, log_det_sign=-1), Perturb(0.3)
    ),
    "density at y, not at its projection": lambda f, d: Metropolis(
        PlantedTarget(f, d, projects=False), Perturb(0.3)
    ),
    "no Hastings ratio": lambda f, d: Metropolis(right(f, d), Uncorrected(1.3)),
    "no Hastings ratio within a mixture": lambda f, d: Metropolis(
        right(f, d), Mixture((Perturb(0.3), Uncorrected(1.3)), (0.5, 0.5))
    ),
    "Hastings ratio upside down": lambda f, d: Metropolis(
        right(f, d), Reversed(CrankNicolson(0.4, 1.2))
    ),
    "elliptical slice with the log-det dropped": lambda f, d: EllipticalSlice(
        PlantedTarget(f, d, log_det_sign=0)
    ),
}


# A bug takes as many steps as the kernel that it is in.
PLANTED_IN = {
    "no kinetic energy": "hamiltonian",
    "a warp without its slope": "warped",
    "elliptical slice with the log-det dropped": "elliptical",
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_convicted(bug):
    flow = FLOWS["realnvp"]()
    begun = begin(flow)
    steps = STEPS.get(PLANTED_IN.get(bug, ""), exact.STEPS)
    found = drift(begun, PLANTED[bug](flow, begun.data), steps=steps)
    assert found.worst > found.limit


def test_noise_shared_by_rows_is_convicted():
    flow = FLOWS["realnvp"]()
    begun = begin(flow)
    own = Streams.of_rows(1, "test", len(begun.truth))
    shared = SharedStreams(own.generators, own.sizes)
    found = drift(begun, EXACT["perturb"](flow, begun.data), streams=shared)
    assert found.worst > found.limit
