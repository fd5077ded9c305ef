"""How a table's chains move: along trajectories, with bold draws after each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from plmcmc.kernels.cycle import Cycle
from plmcmc.kernels.frame import Scaled
from plmcmc.kernels.hmc import Hamiltonian
from plmcmc.kernels.metropolis import Metropolis
from plmcmc.kernels.proposals import Proposal, Turns
from plmcmc.target import TableTarget

# Two radians and more at the step that most tables take: once across, and not back.
TURNS = 4
# Trajectories go where it is near; these, to other modes.
BOLD = Turns((0.0, 0.5))


def table_moves(
    target: TableTarget, step_size: Tensor, turns: int = TURNS, *, bold: Sequence[Proposal] = ()
) -> Cycle:
    """Return the kernel of a table's rows, whose chains stand side by side.

    Args:
        target: by the coordinates of a Gaussian's conditional: nearly round already.
        step_size: `(rows,)`, angle of one turn.
        turns: turns per trajectory.
        bold: more draws after each trajectory than that from the Gaussian.
    """
    draws = (Metropolis(target, proposal, gradient=True) for proposal in (BOLD, *bold))
    return Cycle((trajectory(target, step_size, turns), *draws))


def trajectory(target: TableTarget, step_size: Tensor, turns: int = TURNS) -> Hamiltonian:
    """Return the kernel's first part alone; arguments as for `table_moves`."""
    rows = len(step_size)
    units = Scaled(rows, torch.ones((), dtype=target.reference.low.dtype, device=step_size.device))
    many = torch.full((rows,), turns, device=step_size.device)
    return Hamiltonian(target, units, step_size, many)
