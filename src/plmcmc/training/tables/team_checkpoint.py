"""A checkpoint that a team writes together, and that a team of another size may go on from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plmcmc.chains import Checkpoint
from plmcmc.chains.record import Recorder
from plmcmc.rng import Streams
from plmcmc.training.tables.online_em import TableEM


@dataclass(frozen=True, kw_only=True)
class TeamCheckpoint(Checkpoint):
    """One file, with the chains of all processes in the order of their rows.

    Attributes:
        training: whose chains they are.
    """

    training: TableEM

    def save(
        self,
        step: int,
        state: Any,
        streams: Streams,
        recorders: Sequence[Recorder],
        stepper: object,
    ) -> None:
        """Gather what all have; the leader writes it, and nobody goes on before it has."""
        whole = self.training.gathered(state)
        if self.training.team.leads:
            super().save(step, whole, streams, recorders, stepper)
        self.training.team.wait()

    def load(
        self, state: Any, streams: Streams, recorders: Sequence[Recorder], stepper: object
    ) -> tuple[int, Any]:
        """Put everything back, and return the step and this process's part of the state."""
        whole = self.training.gathered(state)
        step, whole = super().load(whole, streams, recorders, stepper)
        return step, self.training.shared_out(whole)
