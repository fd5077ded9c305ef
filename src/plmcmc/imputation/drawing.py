"""Tables of codes with their holes filled: what chains show is gathered as draws, or reduced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.imputation.convergence import Convergence
from plmcmc.imputation.effort import Effort
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.model import TableModel
from plmcmc.imputation.reduce import Mean, Median
from plmcmc.imputation.sampling import Shown, Walk

Array = NDArray[np.float64]
STATISTICS = ("mean", "median", "draw")


class Drawn(NamedTuple):
    """What stands in the holes, and whether the chains that told it converged.

    Attributes:
        codes: completed tables, `(rows, columns)` or `(draws, rows, columns)`.
        convergence: of the rows with holes; None if there were none, and so no chains.
    """

    codes: Array
    convergence: Convergence | None


@dataclass(frozen=True)
class Drawing:
    """Fills tables `(rows, columns)` of codes, NaN at holes; no chain runs for rows without holes.

    Args:
        layout: what the columns are.
        model: to draw from.
        effort: how many chains, and how long.
        seed: of all that is drawn.
        progress: show a bar; by default on a terminal only.
    """

    layout: Layout
    model: TableModel
    effort: Effort
    seed: int
    progress: bool | None = None

    def once(self, codes: Array, statistic: str) -> Drawn:
        """Return one completed table, filled with a statistic of the draws, or with one of them."""
        if statistic == "draw":
            drawn = self.spread(codes, 1)
        else:
            drawn = _where_holes(codes, 1, lambda rows: self._reduced(rows, statistic))
        return drawn._replace(codes=drawn.codes[0])

    def spread(self, codes: Array, draws: int) -> Drawn:
        """Return draws far apart, which are to be independent; each row begins with any chain."""
        places = self._places
        states = -(-draws // places)
        walk = self._walk(places, states, thin=max(1, self.effort.states // states))
        # Few draws would all be the first members' otherwise.
        rng = np.random.default_rng([self.seed, 4])

        def drawn(rows: Array) -> Drawn:
            return self._gathered(walk, rows, draws, rng.integers(places, size=len(rows)))

        return _where_holes(codes, draws, drawn)

    def proper(self, codes: Array, draws: int) -> Drawn:
        """Return draws each from a model of its own, as another sample of rows might have led to.

        Members take turns.
        """
        members = self.effort.members
        places = members * -(-draws // members)

        def drawn(rows: Array) -> Drawn:
            walk = self._walk(places, 1, flow=self.model.uncertain(places))
            return self._gathered(walk, rows, draws, np.zeros(len(rows), np.int64))

        return _where_holes(codes, draws, drawn)

    @property
    def _places(self) -> int:
        return self.effort.chains * self.effort.members

    def _walk(self, places: int, states: int, **options: Any) -> Walk:
        return Walk(self.model, places, self.effort.burn_in, states, seed=self.seed, **options)

    def _reduced(self, codes: Array, statistic: str) -> Drawn:
        check_statistic(statistic)
        states = self.effort.states
        if statistic == "median":
            found = Median(self.layout, len(codes), states)
        else:
            found = Mean(self.layout, self.model.schema, len(codes), states)
        walk = self._walk(self._places, states)
        convergence = walk.run(codes, found.watch, progress=self.progress)
        return Drawn(found.table()[None], convergence)

    def _gathered(self, walk: Walk, codes: Array, draws: int, first: NDArray[np.int64]) -> Drawn:
        """Return `(draws, rows, columns)`; members and chains take turns, from `first` on."""
        places = walk.places
        found = np.empty((walk.states * places, *codes.shape))

        def watch(shown: Shown) -> None:
            own = slice(shown.state * places, (shown.state + 1) * places)
            order = (first[shown.rows, None] + np.arange(places)) % places
            turned = np.take_along_axis(shown.tables, order[:, :, None], 1)
            found[own, shown.rows] = turned.swapaxes(0, 1)

        convergence = walk.run(codes, watch, progress=self.progress)
        return Drawn(found[:draws], convergence)


def check_statistic(statistic: str) -> None:
    """Refuse what no table is filled with."""
    if statistic not in STATISTICS:
        raise ValueError(f"statistic must be one of {STATISTICS}; got {statistic!r}")


def _where_holes(codes: Array, draws: int, drawn: Callable[[Array], Drawn]) -> Drawn:
    """Return the table `draws` times, with what is drawn for its rows with holes in the holes."""
    holes = np.isnan(codes)
    rows = holes.any(1)
    completed = np.broadcast_to(codes, (draws, *codes.shape)).copy()
    if not rows.any():
        return Drawn(completed, None)
    found, convergence = drawn(codes[rows])
    completed[:, holes] = found[:, holes[rows]]
    if convergence is not None:
        convergence.numbers = np.flatnonzero(rows)
    return Drawn(completed, convergence)
