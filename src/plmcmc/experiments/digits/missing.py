"""What is hidden of digits, by the names that the paper has for it (D.3)."""

from __future__ import annotations

from plmcmc.data import Independent, Mechanism, Patch, SquareObservation

MECHANISMS: dict[str, type] = {"I.M.": Independent, "S.O.": SquareObservation, "P.M.": Patch}


def mechanism_of(cell: str) -> Mechanism:
    """Return the mechanism of a cell such as `"I.M. 0.6"`."""
    kind, rate = cell.split(" ")
    return MECHANISMS[kind](float(rate))
