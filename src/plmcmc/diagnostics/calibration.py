"""A certificate of exactness that needs no ground truth, for any flow and any pattern of holes.

Draw `x` from the flow, hide part of it, sample the hidden part: if the sampler is right, the rank
of any statistic of the true row among the draws is uniform (simulation-based calibration).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from plmcmc.adapters import adapt
from plmcmc.data import DataError, Mechanism
from plmcmc.flows import ContextualFlow, Flow, finite_rows, home, log_prob, sample
from plmcmc.posterior import Draws, Method, condition
from plmcmc.rng import RandomState, generator, seed_of
from plmcmc.statistics import rank_p_value, shared_rank_p_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHAINS = 7
# Of fewer the test of dependent ranks convicts too often: of 8 rows, 2.3% of correct samplers.
FEWEST_ROWS = 16
PROJECTIONS = 4
BINS = 8
# Share of samples that may not be finite, and how often they are drawn again.
MOST_LOST, REDRAWN = 0.05, 5
# A p-value this small, after Bonferroni, convicts.
LEVEL = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Ranks of the true values among the draws.

    Attributes:
        ranks: by statistic, integers from 0 to `draws`: `"log p"` and `"projection 1"` and so on,
            one per row with missing entries, and `"entries"`, one per missing entry.
        rows: the row of each rank of `"entries"`.
        draws: how many draws each true value was ranked among.
        p_values: p-value by statistic, of the hypothesis that ranks are uniform.
    """

    ranks: Mapping[str, NDArray[np.int64]]
    rows: NDArray[np.int64]
    draws: int
    p_values: Mapping[str, float]

    @property
    def passed(self) -> bool:
        """Whether no statistic rejects the sampler."""
        return min(self.p_values.values()) * len(self.p_values) >= LEVEL

    @property
    def verdict(self) -> str:
        """The finding in plain words."""
        worst = min(self.p_values, key=lambda name: self.p_values[name])
        count, least = len(self.p_values), self.p_values[worst]
        if self.passed:
            return (
                f"Calibrated: ranks of {count} statistics are uniform as far as "
                f"{len(self.ranks['log p'])} rows with hidden values can tell (smallest p-value "
                f"{least:.3g}, {worst})."
            )
        return (
            f"NOT calibrated: the ranks of {worst} are not uniform (p-value {least:.2g}, {count} "
            "statistics tested). The draws do not follow p(x_M | x_O): the sampler is wrong, or "
            "its chains are too short; increase thin and warmup, and test again."
        )

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw a histogram of the ranks of each statistic, and write it to `path` if given."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2.4 * len(self.ranks), 2.4), layout="constrained")
        axes = figure.subplots(1, len(self.ranks), squeeze=False)[0]
        for place, (name, ranks) in zip(axes, self.ranks.items(), strict=True):
            counts = np.bincount(ranks * BINS // (self.draws + 1), minlength=BINS)
            place.bar(np.arange(BINS), counts / len(ranks), width=0.9)
            place.axhline(1 / BINS, color="black", linewidth=1)
            title = f"{name}\np = {self.p_values[name]:.2g}"
            place.set(title=title, xticks=[], ylim=(0, 2 / BINS))
        figure.supxlabel("rank of the truth among the draws")
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    def __repr__(self) -> str:
        """The verdict and every p-value."""
        lines = [f"  {name}: p = {value:.3g}" for name, value in self.p_values.items()]
        return "\n".join([self.verdict, *lines])


def calibrate(
    flow: Any,
    missing: Mechanism,
    rows: int = 256,
    draws: int = 63,
    method: str | Method = "auto",
    random_state: RandomState = None,
    *,
    thin: int = 5,
    warmup: int | None = None,
    progress: bool | None = None,
) -> Calibration:
    """Test whether a sampler draws from a flow's own conditional distributions.

    Args:
        flow: as for `plmcmc.condition`, without contexts.
        missing: the mechanism that hides entries, such as `plmcmc.data.Independent(0.5)`.
        rows: number of rows to draw from the flow; in at least 16 of them something must be hidden.
        draws: number of draws to rank each true value among, from seven chains per row.
        method: the sampler to test.
        random_state: a seed.
        thin: steps between two draws of a chain; dependent draws give non-uniform ranks.
        warmup: steps to tune and to forget the start; by default the method decides.
        progress: show a bar; by default on a terminal only.

    Example:
        >>> import plmcmc
        >>> flow = plmcmc.Linear.of_moments(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
        >>> found = calibrate(flow, plmcmc.data.Independent(0.5), rows=64, random_state=0)
        >>> found.passed
        True
    """
    if isinstance(missing, type) or not callable(missing):
        raise TypeError(
            "missing must be a mechanism that hides entries, such as plmcmc.data.Independent(0.5); "
            f"got {missing!r}"
        )
    adapted = adapt(flow)
    if isinstance(adapted, ContextualFlow):
        raise DataError(
            "calibrate takes no contexts: calibrate plmcmc.adapt(flow).given(context), with one "
            "context repeated for each of the rows"
        )
    if draws < CHAINS or rows < FEWEST_ROWS:
        raise ValueError(
            f"at least {FEWEST_ROWS} rows and {CHAINS} draws are needed; got {rows} and {draws}"
        )
    seed = seed_of(random_state)
    source = generator(seed, "calibration", device=home(adapted).device)
    with torch.no_grad():
        truth = _drawn(adapted, rows, source)
    observed = missing(truth.cpu().numpy(), np.random.default_rng(seed))
    _check_hidden(observed, rows)
    # Starts and tuning see only what is observed: the truth is behind the holes.
    conditional = condition(adapted, truth, observed)
    with warnings.catch_warnings():
        # Whether the draws can be trusted is what is being measured here.
        warnings.simplefilter("ignore", UserWarning)
        drawn = conditional.sample(
            -(-draws // CHAINS),
            chains=CHAINS,
            thin=thin,
            warmup=warmup,
            method=method,
            random_state=seed,
            progress=progress,
        )
    return _ranked(adapted, truth, drawn, draws, np.random.default_rng(seed + 1))


def _check_hidden(observed: NDArray[np.bool_], rows: int) -> None:
    """Refuse to judge by a few rows: those of which nothing was hidden tell nothing."""
    if observed.all():
        raise DataError("nothing was hidden: choose a mechanism that hides something")
    count = int((~observed.reshape(rows, -1).all(1)).sum())
    if count < FEWEST_ROWS:
        raise DataError(
            f"at least {FEWEST_ROWS} rows with hidden values are needed; of {rows} rows, {count} "
            "have any: increase rows, or choose a mechanism that hides more"
        )


def _drawn(flow: Flow, rows: int, source: Generator) -> Tensor:
    """Return samples of a flow; the few in which it may overflow are no data, and drawn again.

    Not many: chains need not keep out of where the flow cannot decode, and would seem wrong.
    """
    found = sample(flow, rows, source)
    lost = ~finite_rows(found)
    if int(lost.sum()) > max(1, MOST_LOST * rows):
        raise DataError(
            f"the flow overflows on {int(lost.sum())} of {rows} of its own samples: too many to "
            "calibrate on the rest"
        )
    for _ in range(REDRAWN):
        found[lost] = sample(flow, rows, source)[lost]
        lost = ~finite_rows(found)
    if bool(lost.any()):
        raise DataError("the flow keeps overflowing on its own samples")
    return found


def _ranked(
    flow: Flow, truth: Tensor, drawn: Draws, draws: int, rng: np.random.Generator
) -> Calibration:
    """Rank every statistic of the true rows among those of the draws."""
    values = drawn.values.reshape(-1, *truth.shape)[:draws]
    holes = ~drawn.observed
    open_rows = holes.reshape(len(holes), -1).any(1)
    original = truth.cpu().numpy()
    heights = _log_probs(flow, values), _log_probs(flow, original[None])[0]
    # Numbers of their own: where nothing is tied, no rank depends on them.
    ties = rng.spawn(1)[0]
    ranks = {"log p": _rank(*heights, ties)}
    spread = original.std(0) + 1e-12
    for number in range(1, PROJECTIONS + 1):
        direction = rng.standard_normal(original.shape) * holes / spread
        projected = [(rows * direction).reshape(len(rows), -1).sum(1) for rows in values]
        own = (original * direction).reshape(len(original), -1).sum(1)
        ranks[f"projection {number}"] = _rank(np.stack(projected), own, ties)
    ranks = {name: found[open_rows] for name, found in ranks.items()}
    ranks["entries"] = _rank(values[:, holes], original[holes], ties)
    rows = np.broadcast_to(np.arange(len(holes)).reshape(-1, *[1] * (holes.ndim - 1)), holes.shape)[
        holes
    ]
    p_values = {name: rank_p_value(found, draws, BINS) for name, found in ranks.items()}
    # Entries of one row are dependent: their ranks count by row.
    p_values["entries"] = shared_rank_p_value(ranks["entries"], rows, draws, BINS)
    return Calibration(ranks, rows, draws, p_values)


def _rank(
    draws: NDArray[np.floating], truth: NDArray[np.floating], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return how many draws lie below the truth; of those equal to it, a number by lot.

    Where a flow's density is constant, as a uniform base's may be, all draws are tied in "log p".
    """
    return (draws < truth).sum(0) + rng.integers((draws == truth).sum(0) + 1)


def _log_probs(flow: Flow, values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return `log p` of every row of `(draws, rows, *event)`."""
    where = home(flow)
    with torch.no_grad():
        found = [log_prob(flow, where.bring(torch.as_tensor(rows))) for rows in values]
    return torch.stack(found).cpu().numpy()
