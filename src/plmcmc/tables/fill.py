"""One table filled: what to write of it, and how the chains converged that told it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from plmcmc.imputation import FlowImputer
from plmcmc.tables.kinds import Flag, Kinds
from plmcmc.tables.reading import Table


class Found(NamedTuple):
    """How the chains of a table converged.

    Attributes:
        rows: how many have holes.
        settled: how many of them have all of their holes converged; None where nobody can tell.
        holes: how many there are.
        share: of the holes, how many have converged; None where nobody can tell.
        stuck: how many rows have a chain that never moved.
    """

    rows: int
    settled: int | None
    holes: int
    share: float | None
    stuck: int = 0


class Filled(NamedTuple):
    """A table that is done.

    Attributes:
        contents: of the files to write.
        found: how its chains converged.
    """

    contents: list[bytes]
    found: Found


def loaded(
    model: str | Path, device: str, *, statistic: str | None = None, seed: int | None = None
) -> FlowImputer:
    """Return a saved model, asked for another statistic or by another seed than its own."""
    imputer = FlowImputer.load(model, device=device)
    if statistic:
        imputer.statistic = statistic
    if seed is not None:
        imputer.seed_ = seed
    return imputer


def filled(
    learned: Callable[[], FlowImputer],
    known: Kinds,
    table: Table,
    frame: pd.DataFrame,
    *,
    draws: int | None = None,
    flag: str | None = None,
) -> Filled:
    """Return what to write of one table; copies, if nothing of it is missing.

    Args:
        learned: gives the imputer, if there is anything to fill.
        known: the columns to fill.
        table: where they stand.
        frame: their values.
        draws: how many tables of draws to write, instead of one.
        flag: the name of a column to add.
    """
    missing = frame.isna().to_numpy()
    rows, settled = missing.any(1), np.ones(len(missing), dtype=bool)
    completed, found = [frame] * (draws or 1), Found(0, None, 0, None)
    if rows.any():
        imputer = learned()
        completed = imputer.complete(frame, draws) if draws else [imputer.transform(frame)]
        told = imputer.convergence_ if imputer.convergence_.checked else None
        if told is not None:
            settled[rows] = told.rows
        found = Found(
            int(rows.sum()),
            None if told is None else int(told.rows.sum()),
            int(missing.sum()),
            None if told is None else told.share,
            int(imputer.convergence_.stuck.sum()),
        )
    added = None if flag is None else Flag(flag, settled.tolist())
    return Filled([table.filled(known, own, added) for own in completed], found)


def pooled(tables: Sequence[Found]) -> Found:
    """Return how the chains of several tables converged, taken together."""
    names = ("rows", "holes", "stuck")
    rows, holes, stuck = (sum(getattr(own, name) for own in tables) for name in names)
    told = [own for own in tables if own.holes]
    if not told or any(own.share is None or own.settled is None for own in told):
        return Found(rows, None, holes, None, stuck)
    share = sum(own.holes * (own.share or 0.0) for own in told) / holes
    return Found(rows, sum(own.settled or 0 for own in told), holes, share, stuck)
