"""How a table's flow is trained, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

# Numbers in the matrices of all rows, half a gigabyte.
MATRIX_NUMBERS = 2**26


@dataclass(frozen=True)
class TableTraining:
    """How a table's flow is trained.

    Args:
        updates: gradient steps in all.
        turns: turns of each chain's trajectory before each update.
        batch: chains of each member in an update.
        learning_rate: of AdamW, falling to nothing along a cosine.
        weight_decay: of AdamW.
        smoothing: noise added to the rows, in residual deviations, times `rows^(-1/(columns+4))`.
        average: weight of the past in the running average of the weights.
        chains: chains of each member for all rows together, at most 8 and at least 1 a row.
        rows: how many rows to learn from, at most.
    """

    updates: int = 1500
    turns: int = 2
    batch: int = 256
    learning_rate: float = 6e-3
    weight_decay: float = 0.01
    smoothing: float = 0.15
    average: float = 0.995
    chains: int = 4500
    rows: int = 20_000

    def most_rows(self, width: int) -> int:
        """Return how many rows to learn from if each has so many scores: matrices must fit."""
        return min(self.rows, max(1, MATRIX_NUMBERS // width**2))

    def chains_per_row(self, rows: int) -> int:
        """Return how many chains each member has for each row."""
        return min(8, max(1, round(self.chains / rows)))
