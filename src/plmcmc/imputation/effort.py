"""How much work to put into a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from plmcmc.training.tables.settings import TableTraining


@dataclass(frozen=True)
class Effort:
    """How much computation to spend.

    Args:
        members: number of flows in the ensemble.
        mixtures: number of Gaussian mixtures that join the ensemble, if they predict hidden values
            nearly as well.
        couplings: coupling layers of each flow.
        width: width of their networks.
        training: settings of their training.
        chains: chains per member and row, when drawing.
        burn_in: trajectories before the first kept state, used for tuning step sizes.
        states: number of states kept, for means.
    """

    members: int = 4
    mixtures: int = 8
    couplings: int = 6
    width: int = 64
    training: TableTraining = field(default=TableTraining())
    chains: int = 2
    burn_in: int = 15
    states: int = 50

    @property
    def name(self) -> str:
        """What it is called: a key of `EFFORTS`, or `"custom"`."""
        return next((name for name, known in EFFORTS.items() if known == self), "custom")


EFFORTS = {
    "fast": Effort(
        members=2,
        mixtures=0,
        couplings=4,
        width=48,
        training=TableTraining(updates=500),
        chains=1,
        burn_in=8,
        states=12,
    ),
    "default": Effort(),
    "thorough": Effort(
        members=8,
        mixtures=16,
        couplings=12,
        training=TableTraining(updates=3000),
        burn_in=60,
        states=300,
    ),
}
