"""In: a target. Out: `(State, Info)` from `State`, each row's chain moved once.

`base` says what a kernel is; `metropolis` with `proposals` is the paper's Algorithm 1. The default
sampler's is `hmc` in the coordinates of a `frame`; where holes are few, in a `cycle` with a `jump`.
"""

from plmcmc.kernels.base import Info, Kernel, NonFiniteStart, State
from plmcmc.kernels.cycle import Cycle
from plmcmc.kernels.elliptical import EllipticalSlice
from plmcmc.kernels.frame import Coordinates, Frame, Free, Holes, Scaled
from plmcmc.kernels.gibbs import OneCoordinate
from plmcmc.kernels.gradient import GradientState, differentiated
from plmcmc.kernels.hmc import Hamiltonian
from plmcmc.kernels.hop import Hop
from plmcmc.kernels.jump import Jump
from plmcmc.kernels.langevin import Langevin, UnadjustedLangevin
from plmcmc.kernels.leaps import Leaps
from plmcmc.kernels.metropolis import Metropolis
from plmcmc.kernels.mixture_draws import MixtureDraws
from plmcmc.kernels.proposals import CrankNicolson, Mixture, Perturb, Proposal, Resample, Turns
from plmcmc.kernels.table_moves import table_moves

__all__ = [
    "Coordinates",
    "CrankNicolson",
    "Cycle",
    "EllipticalSlice",
    "Frame",
    "Free",
    "GradientState",
    "Hamiltonian",
    "Holes",
    "Hop",
    "Info",
    "Jump",
    "Kernel",
    "Langevin",
    "Leaps",
    "Metropolis",
    "Mixture",
    "MixtureDraws",
    "NonFiniteStart",
    "OneCoordinate",
    "Perturb",
    "Proposal",
    "Resample",
    "Scaled",
    "State",
    "Turns",
    "UnadjustedLangevin",
    "differentiated",
    "table_moves",
]
