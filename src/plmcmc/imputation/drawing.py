"""Tables of codes with their holes filled: what chains show is gathered as draws, or reduced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plmcmc.chains import Progress, in_silence, progress_bar
from plmcmc.data import DataError
from plmcmc.imputation.convergence import Convergence, joined
from plmcmc.imputation.effort import Effort
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.model import TableModel
from plmcmc.imputation.reduce import Mean, Median
from plmcmc.imputation.sampling import Shown, Walk
from plmcmc.rng import part_seed, parts_of
from plmcmc.threads import one_thread

Array = NDArray[np.float64]
STATISTICS = ("mean", "median", "draw")


class NothingFound(DataError):
    """Chains found no value for a hole."""


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
        origin: which file of several the table is, and which of its parts the first.
        report: told how many rows are done.
    """

    layout: Layout
    model: TableModel
    effort: Effort
    seed: int
    progress: bool | None = None
    origin: tuple[int, int] = (0, 0)
    report: Progress = in_silence

    def once(self, codes: Array, statistic: str) -> Drawn:
        """Return one completed table, filled with a statistic of the draws, or with one of them."""
        if statistic == "draw":
            drawn = self.spread(codes, 1)
        else:
            check_statistic(statistic)
            drawn = self._in_parts(codes, 1, lambda own, rows: own._reduced(rows, statistic))
        return drawn._replace(codes=drawn.codes[0])

    def spread(self, codes: Array, draws: int) -> Drawn:
        """Return draws far apart, which are to be independent; each row begins with any chain."""
        places = self._places
        states = -(-draws // places)
        thin = max(1, self.effort.states // states)

        def drawn(own: Drawing, rows: Array) -> Drawn:
            # Few draws would all be the first members' otherwise.
            first = np.random.default_rng([own.seed, 4]).integers(places, size=len(rows))
            order = (first[:, None] + np.arange(places)) % places
            return own._gathered(own._walk(places, states, thin=thin), rows, draws, order)

        return self._in_parts(codes, draws, drawn)

    def proper(self, codes: Array, draws: int) -> Drawn:
        """Return draws each from a model of its own, as another sample of rows might have led to.

        Fewer draws than members are of members of all kinds, which stand side by side.
        """
        return self._uncertain(codes, draws, draws)

    def likely(self, codes: Array, draws: int) -> Drawn:
        """Return draws from models that might as well have been found, of each model several."""
        return self._uncertain(codes, draws, min(draws, len(self.model.others.mean)))

    def _uncertain(self, codes: Array, draws: int, chains: int) -> Drawn:
        """Return draws by so many chains of each row, or a few more, each of a model of its own."""
        members = self.model.members
        places = members * -(-chains // members)
        states = -(-draws // places)
        tilts = self.model.uncertain(places)
        thin, order = 1, np.arange(draws) * places // draws
        if states > 1:
            thin, order = max(1, self.effort.states // states), np.arange(places)

        def drawn(own: Drawing, rows: Array) -> Drawn:
            walk = own._walk(places, states, thin=thin, tilts=tilts)
            turns = np.broadcast_to(order, (len(rows), len(order)))
            return own._gathered(walk, rows, draws, turns)

        return self._in_parts(codes, draws, drawn)

    @one_thread()
    def _in_parts(
        self, codes: Array, draws: int, drawn: Callable[[Drawing, Array], Drawn]
    ) -> Drawn:
        """Return the table `draws` times, its holes filled part by part.

        What a part gets depends on no other: whoever has only some of the parts fills them alike.
        """
        holes = np.isnan(codes)
        rows = np.asarray(holes.any(1))
        completed = np.broadcast_to(codes, (draws, *codes.shape)).copy()
        told: list[Convergence] = []
        with progress_bar("Drawing rows", int(rows.sum()), show=self.progress) as report:
            done = 0
            for number, part in enumerate(parts_of(len(codes))):
                own = part.start + np.flatnonzero(rows[part])
                if not len(own):
                    continue
                file, first = self.origin
                seed = part_seed(self.seed, first + number, file)
                drawing = replace(self, seed=seed, report=_after(done, report))
                found, convergence = drawn(drawing, codes[own])
                self._check_found(holes[own] & np.isnan(found))
                where = (slice(None), own[:, None], np.arange(codes.shape[1]))
                completed[where] = np.where(holes[own], found, codes[own])
                if convergence is not None:
                    convergence.numbers = own
                    told.append(convergence)
                done += len(own)
        return Drawn(completed, joined(told) if told else None)

    def _check_found(self, lost: NDArray[np.bool_]) -> None:
        """Refuse to fill in what is no value: chains may have gone astray."""
        if lost.any():
            names = np.array(self.layout.names, dtype=object)[lost.any((0, 1))].tolist()
            raise NothingFound(
                f"columns {names}: found no values to fill in. Look for a column in which nearly "
                "every value is unique, and leave it out; if there is none, please report this"
            )

    @property
    def _places(self) -> int:
        return self.effort.chains * self.model.members

    def _walk(self, places: int, states: int, **options: Any) -> Walk:
        return Walk(self.model, places, self.effort.burn_in, states, seed=self.seed, **options)

    def _reduced(self, codes: Array, statistic: str) -> Drawn:
        states = self.effort.states
        if statistic == "median":
            found = Median(self.layout, len(codes), states)
        else:
            found = Mean(self.layout, self.model.schema, len(codes), states)
        walk = self._walk(self._places, states)
        convergence = walk.run(codes, found.watch, self.report)
        return Drawn(found.table()[None], convergence)

    def _gathered(self, walk: Walk, codes: Array, draws: int, order: NDArray[np.int64]) -> Drawn:
        """Return `(draws, rows, columns)`: of each state each row's places, in their `order`."""
        places = order.shape[1]
        found = np.empty((walk.states * places, *codes.shape))

        def watch(shown: Shown) -> None:
            own = slice(shown.state * places, (shown.state + 1) * places)
            turned = np.take_along_axis(shown.tables, order[shown.rows, :, None], 1)
            found[own, shown.rows] = turned.swapaxes(0, 1)

        convergence = walk.run(codes, watch, self.report)
        return Drawn(found[:draws], convergence)


def check_statistic(statistic: str) -> None:
    """Refuse what no table is filled with."""
    if statistic not in STATISTICS:
        raise ValueError(f"statistic must be one of {STATISTICS}; got {statistic!r}")


def _after(before: int, report: Progress) -> Progress:
    """Return what reports rows that come after others."""
    return lambda done, words: report(before + done, words)
