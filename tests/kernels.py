"""Every kernel, by name: a function from a flow and rows with holes to the kernel.

A line here puts a kernel through the invariance and the conformance tests.
"""

from dataclasses import replace

import torch

from exact import AUXILIARY, FEATURES
from plmcmc.adaptation.metric import frame_of_precision
from plmcmc.kernels import (
    CrankNicolson,
    Cycle,
    EllipticalSlice,
    Free,
    Hamiltonian,
    Holes,
    Hop,
    Jump,
    Langevin,
    Leaps,
    Metropolis,
    Mixture,
    OneCoordinate,
    Perturb,
    Resample,
    Scaled,
    Turns,
    UnadjustedLangevin,
)
from plmcmc.target import (
    ConditionalTarget,
    GaussianReference,
    ProjectedLatentTarget,
    TableTarget,
    Warp,
)
from plmcmc.training.tables.gaussian import Gaussian, conditionals


def latent(flow, data):
    return ProjectedLatentTarget(flow, data, AUXILIARY)


def by_row(data):
    """Steps that differ from row to row."""
    return torch.linspace(0.2, 0.6, len(data.values)).double()


def gibbs(flow, data):
    target = ConditionalTarget(flow, data)
    mean, scale = torch.zeros(FEATURES).double(), 2 * torch.ones(FEATURES).double()
    return Metropolis(target, OneCoordinate.of(mean, scale, target.free))


def frame(data):
    """Coordinates that fit no flow in particular: kernels must be exact in any."""
    rows, half = (
        len(data.values),
        torch.randn(FEATURES, 9, generator=torch.Generator().manual_seed(4)).double(),
    )
    precision = (half @ half.T / 9).expand(rows, -1, -1)
    centre = torch.full((rows, FEATURES), 0.3).double()
    return frame_of_precision(precision, centre, Holes.of(data.observed, FEATURES))


def hamiltonian(flow, data):
    rows = len(data.values)
    steps = torch.linspace(0.2, 0.5, rows).double()
    turns = 2 + torch.arange(rows) % 4
    return Hamiltonian(ConditionalTarget(flow, data), frame(data), steps, turns)


def warped(flow, data):
    """Hamiltonian moves in warped coordinates: any warp must do."""
    numbers = (0.3, 1.4, 0.5, 0.7)
    warp = Warp(*(torch.full((FEATURES,), n).double() for n in numbers))
    plain = hamiltonian(flow, data)
    return replace(plain, target=ConditionalTarget(flow, data, warp))


def latent_hamiltonian(flow, data):
    rows = len(data.values)
    steps = torch.linspace(0.2, 0.5, rows).double()
    units = Scaled(rows, torch.linspace(0.8, 1.3, FEATURES).double())
    return Hamiltonian(latent(flow, data), units, steps, 2 + torch.arange(rows) % 4)


def free_hamiltonian(flow, data):
    plain = hamiltonian(flow, data)
    return replace(plain, frame=Free(len(data.values), ~data.observed))


def table(flow, data, low=None, high=None):
    """The target by the coordinates of a Gaussian that fits no flow in particular."""
    half = torch.randn(FEATURES, 9, generator=torch.Generator().manual_seed(4)).double()
    gaussian = Gaussian(torch.full((FEATURES,), 0.3).double(), half @ half.T / 9)
    found = conditionals(gaussian, data.observed)
    low = torch.where(data.observed, data.values, -torch.inf) if low is None else low
    high = torch.where(data.observed, data.values, torch.inf) if high is None else high
    reference = GaussianReference(low, high, gaussian.mean, found.gain, found.root)
    return TableTarget(flow, reference)


def table_hamiltonian(target):
    rows = len(target.reference.low)
    steps = torch.linspace(0.3, 0.6, rows).double()
    units = Scaled(rows, torch.ones(()).double())
    return Hamiltonian(target, units, steps, 2 + torch.arange(rows) % 4)


def jump(flow, data):
    wide = frame(data)
    narrow = replace(wide, root=0.4 * wide.root, inverse=wide.inverse / 0.4)
    noise = torch.randn(len(data.values), 3, *data.values.shape[1:], generator=_source(5)).double()
    centres = wide.holes.gather(noise.flatten(0, 1))
    return Metropolis(ConditionalTarget(flow, data), Jump(wide, narrow, centres), gradient=True)


def hop(flow, data):
    """Between three modes of different widths, two of them close; the target need know none."""
    plain = frame(data)
    noise = torch.randn(len(data.values), 3, *data.values.shape[1:], generator=_source(6)).double()
    scale = torch.tensor([0.6, 1.0, 1.5]).double()[:, None, None]
    roots, inverses = plain.root[:, None] * scale, plain.inverse[:, None] / scale
    centres = plain.holes.gather(noise.flatten(0, 1))
    centres[:, 2] = centres[:, 1] + 0.1 * centres[:, 2]
    proposal = Hop(plain.holes, centres, roots, inverses)
    return Metropolis(ConditionalTarget(flow, data), proposal)


def leaps(flow, data):
    right = ConditionalTarget(flow, data)
    return Leaps(right, (jump(flow, data).proposal, hop(flow, data).proposal))


def _source(seed):
    return torch.Generator().manual_seed(seed)


EXACT = {
    "perturb": lambda f, d: Metropolis(latent(f, d), Perturb(0.3)),
    "resample": lambda f, d: Metropolis(latent(f, d), Resample(1.3)),
    "mixture": lambda f, d: Metropolis(
        latent(f, d), Mixture((Perturb(0.3), Resample(1.3)), (0.5, 0.5))
    ),
    "crank-nicolson": lambda f, d: Metropolis(latent(f, d), CrankNicolson(0.4, 1.2)),
    "elliptical": lambda f, d: EllipticalSlice(latent(f, d)),
    "latent-hmc": latent_hamiltonian,
    "perturb-by-row": lambda f, d: Metropolis(latent(f, d), Perturb(by_row(d))),
    "crank-nicolson-by-row": lambda f, d: Metropolis(latent(f, d), CrankNicolson(by_row(d), 1.2)),
    "mala-by-row": lambda f, d: Langevin(ConditionalTarget(f, d), by_row(d)),
    "latent-mala": lambda f, d: Langevin(latent(f, d), 0.5),
    "data-metropolis": lambda f, d: Metropolis(ConditionalTarget(f, d), Perturb(0.3)),
    "data-mala": lambda f, d: Langevin(ConditionalTarget(f, d), 0.4),
    "gibbs": gibbs,
    "hamiltonian": hamiltonian,
    "free-hmc": free_hamiltonian,
    "warped": warped,
    "jump": jump,
    "hop": hop,
    "leaps": leaps,
    "turns": lambda f, d: Metropolis(table(f, d), Turns()),
    "table-hmc": lambda f, d: table_hamiltonian(table(f, d)),
    "cycle": lambda f, d: Cycle((hamiltonian(f, d), jump(f, d))),
}
BIASED = {
    "data-ula": lambda f, d: UnadjustedLangevin(ConditionalTarget(f, d), 0.8),
}
CASES = EXACT | BIASED
