"""Every kernel leaves its target invariant, on every family of flows; planted bugs do not."""

from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

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
    Frame,
    Hamiltonian,
    Hop,
    Jump,
    Metropolis,
    Mixture,
    Perturb,
    Resample,
    Turns,
)
from plmcmc.rng import Streams
from plmcmc.target import ConditionalTarget, Point, ProjectedLatentTarget, Warp

# Steps after which a kernel's chains must have moved by this much of a standard deviation: a chain
# that stands still is invariant too.
LEAST_DISPLACEMENT = 0.1
# Kernels that go far in a step, and pay for it, take fewer.
FAR = ("elliptical", "hamiltonian", "free-hmc", "warped", "cycle", "latent-hmc", "table-hmc")
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


class NineTenths(Hamiltonian):
    """Trajectories that count nine tenths of the change of kinetic energy."""

    def _trajectory(self, state, u, momentum, angle):
        end, last, after = super()._trajectory(state, u, momentum, angle)
        # Their squares are what is counted.
        squares = 0.9 * after.square() + 0.1 * momentum.square()
        return end, last, squares.sqrt()


class Wider(EllipticalSlice):
    """An ellipse through a draw of one width, and a likelihood relative to another."""

    def _likelihood(self, point):
        return point.log_density + 0.45 * point.position.square().sum(1) / self.scale**2


class Flatter(CrankNicolson):
    """A move that takes the variance that it is reversible for to be a deviation."""

    def move(self, like, streams):
        return super().move(like, streams)._replace(precision=1 / self.scale)


class Shorter(Turns):
    """Turns that lose a little at every step."""

    def move(self, like, streams):
        move = super().move(like, streams)
        return move._replace(spread=0.95 * move.spread)


class FromTheFirst(Jump):
    """Jumps near one old draw, corrected as if they were near any."""

    @cached_property
    def _places(self):
        others = self.centres + torch.arange(3)[:, None]
        return self._within(self.narrow, others)


class Halved(Frame):
    """A frame that misjudges its volume."""

    @cached_property
    def log_volume(self):
        return 0.5 * super().log_volume


def nine_tenths(flow, data):
    right = EXACT["hamiltonian"](flow, data)
    return NineTenths(right.target, right.frame, right.step_size, right.turns)


def unlike_inverse(flow, data):
    right = EXACT["hamiltonian"](flow, data)
    return replace(right, frame=replace(right.frame, inverse=1.05 * right.frame.inverse))


def other_jump(flow, data):
    right = EXACT["jump"](flow, data)
    jump = right.proposal
    return replace(right, proposal=FromTheFirst(jump.wide, jump.narrow, jump.centres))


def misjudged_jump(flow, data):
    right = EXACT["jump"](flow, data)
    frame = right.proposal.narrow
    halved = Halved(frame.holes, frame.centre, frame.root, frame.inverse)
    return replace(right, proposal=replace(right.proposal, narrow=halved))


# What changes little, and is seen on a flow that is strongly curved, by many rows.
SMALL = {
    "nine tenths of the kinetic energy": nine_tenths,
    "a frame whose inverse is another's": unlike_inverse,
    "an ellipse of another width": lambda f, d: Wider(right(f, d)),
    "a deviation taken for a variance": lambda f, d: Metropolis(right(f, d), Flatter(0.4, 1.2)),
    "turns that shrink": lambda f, d: Metropolis(EXACT["turns"](f, d).target, Shorter()),
    "jumps corrected by other draws": other_jump,
    "jumps of another volume": misjudged_jump,
}


class Narrow(Hop):
    """Hops between modes that are taken to be of one width."""

    @property
    def _log_volumes(self):
        return torch.zeros(self.centres.shape[:2], dtype=torch.float64)


class Padded(Hop):
    """Hops that count the padding among the holes."""

    @property
    def _log_volumes(self):
        return torch.linalg.slogdet(self.roots).logabsdet


class Uncounted(Hop):
    """Hops that forget from how many modes they chose."""

    @property
    def _log_choices(self):
        return torch.zeros(self.centres.shape[:2], dtype=torch.float64)


def other_hop(kind, flow, data):
    right = EXACT["hop"](flow, data)
    parts = (getattr(right.proposal, field.name) for field in fields(Hop))
    return replace(right, proposal=kind(*parts))


PLANTED = {
    "hops that owe nothing for widths": partial(other_hop, Narrow),
    "hops that owe for the padding": partial(other_hop, Padded),
    "hops that owe nothing for their choices": partial(other_hop, Uncounted),
    "hops that owe the wrong way round": lambda f, d: Metropolis(
        ConditionalTarget(f, d), Reversed(EXACT["hop"](f, d).proposal)
    ),
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
    "nine tenths of the kinetic energy": "hamiltonian",
    "a frame whose inverse is another's": "hamiltonian",
    "an ellipse of another width": "elliptical",
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_convicted(bug):
    flow = FLOWS["realnvp"]()
    begun = begin(flow)
    steps = STEPS.get(PLANTED_IN.get(bug, ""), exact.STEPS)
    found = drift(begun, PLANTED[bug](flow, begun.data), steps=steps)
    assert found.worst > found.limit


@pytest.mark.parametrize("bug", SMALL)
def test_small_bugs_are_convicted_where_the_flow_is_curved(bug):
    flow = FLOWS["bent"]()
    begun = begin(flow)
    steps = STEPS.get(PLANTED_IN.get(bug, ""), exact.STEPS)
    found = drift(begun, SMALL[bug](flow, begun.data), steps=steps)
    assert found.worst > found.limit


def test_noise_shared_by_rows_is_convicted():
    flow = FLOWS["realnvp"]()
    begun = begin(flow)
    own = Streams.of_rows(1, "test", len(begun.truth))
    shared = SharedStreams(own.generators, own.sizes)
    found = drift(begun, EXACT["perturb"](flow, begun.data), streams=shared)
    assert found.worst > found.limit
