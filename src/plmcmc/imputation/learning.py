"""A table's model from the table itself: a Gaussian, mixtures, and a flow that starts from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.chains import described, progress_bar, run
from plmcmc.data import Regions, Schema
from plmcmc.flows import TabularFlow
from plmcmc.imputation.effort import Effort
from plmcmc.imputation.model import TableModel
from plmcmc.rng import Streams, generator
from plmcmc.threads import one_thread
from plmcmc.training.tables.copula import Copula, copula
from plmcmc.training.tables.gaussian import Gaussian, expectation_maximisation, precision_of
from plmcmc.training.tables.mixtures import components_for, fit_mixtures, hidden_scores
from plmcmc.training.tables.online_em import ALONE, EMState, TableEM
from plmcmc.training.tables.posterior import drawn_gaussians, few_rows
from plmcmc.training.tables.references import References
from plmcmc.training.tables.ridge import RIDGES, chosen_ridge
from plmcmc.training.tables.team import Team
from plmcmc.training.tables.team_checkpoint import TeamCheckpoint
from plmcmc.training.tables.validation import Hidden

Array = NDArray[np.float64]
# Gaussians of rows weighted at random, of how many rows; they differ by more than is left of EM.
OTHERS, OTHERS_ROWS, OTHERS_TOLERANCE, OTHERS_STEPS = 20, 4000, 1e-3, 10
# Products that all of them may take together: of wide tables they are fitted to fewer rows, but
# to no fewer for each column than this.
OTHERS_PRODUCTS, OTHERS_EACH = 5e11, 4
# Rounds of training between two checkpoints.
CHECKPOINT_ROUNDS = 4
# Mixtures that are tried, and hidden values that it takes to judge them.
TRIED, LEAST_HIDDEN = 4, 30
# A column whose deviation given all others is less follows from them.
FOLLOWS = 0.1


@one_thread()
def fit_table(
    schema: Schema,
    table: Array,
    effort: Effort,
    seed: int,
    *,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    progress: bool | None = None,
    team: Team = ALONE,
) -> TableModel:
    """Learn a table's distribution from what is seen of it.

    Args:
        schema: of the table.
        table: codes `(rows, columns)`, NaN at holes.
        effort: how much work to put in.
        seed: of everything random.
        device: where the flow learns, and stays.
        checkpoint: a file to resume from if it is there, and to save to now and then.
        progress: show a bar; by default on a terminal only.
        team: processes that learn together, each given the same table.
    """
    table = _some(table, effort.training.most_rows(schema.width), seed)
    hidden, known = Hidden.of(schema, table, seed)
    whole, regions = schema.regions(table), schema.regions(known)
    shown = progress if team.leads else False
    with progress_bar("Fitting a Gaussian", len(RIDGES), show=shown) as report:
        ridge = chosen_ridge(schema, regions, hidden, report)
        report(len(RIDGES), f"ridge {ridge:g}")
        found = copula(regions, seed, ridge=ridge)
        if few_rows(*regions.low.shape):
            # They learn from what was hidden, too: it is much of few rows.
            others = drawn_gaussians(copula(whole, seed, ridge=ridge), OTHERS, seed, ridge=ridge)
        else:
            others = _others(found, regions, seed, ridge)
    flow = _untrained(found.gaussian, effort, seed).to(device)
    where = flow.mean.device
    training = TableEM(flow, found.gaussian, regions, effort.training, hidden=hidden, team=team)
    identity = _agreed_identity(table, effort, seed, where, team)
    kept = checkpoint and TeamCheckpoint(checkpoint, identity, CHECKPOINT_ROUNDS, training=training)
    state = _trained(training, len(table) * effort.members, seed, where, kept, shown)
    mixture = None
    tried = _tried_mixtures(found, regions, hidden, effort, seed, shown)
    joins = tried is not None and training.joined_by(state, tried)
    # Of unlike processors the last bit may differ.
    if team.agreed(int(joins)):
        # They are cheap, and learn from what was hidden, too.
        with progress_bar("Fitting mixtures", effort.mixtures, show=shown) as report:
            mixture = fit_mixtures(copula(whole, seed, ridge=ridge), effort.mixtures, seed, report)
    flow = training.chosen(state).eval()
    return TableModel(schema, found.gaussian, others, flow, mixture).to(where)


def _untrained(gaussian: Gaussian, effort: Effort, seed: int) -> TabularFlow:
    """Return the flow that training begins at: the Gaussian, with layers that do nothing yet."""
    flow = TabularFlow(
        len(gaussian.mean),
        members=effort.members,
        couplings=effort.couplings,
        width=effort.width,
        random_state=seed,
    )
    flow.start_at(*gaussian)
    return flow


def _agreed_identity(
    table: Array, effort: Effort, seed: int, device: torch.device, team: Team
) -> dict[str, str]:
    """Return what a checkpoint must be of, once all of a team were found to be given the same."""
    identity = {
        "table": described(table),
        "effort": described(effort),
        "seed": str(seed),
        "device": device.type,
    }
    for name, description in identity.items():
        team.check_same(name, description)
    return identity


def _trained(
    training: TableEM,
    rows: int,
    seed: int,
    device: torch.device,
    checkpoint: TeamCheckpoint | None,
    show: bool | None,
) -> EMState:
    """Train a flow to its end, for so many rows in all of its members; return the last state."""
    start = Streams([generator(seed, "start", device=device)], [rows * training.chains])
    with progress_bar("Learning the table", training.rounds, show=show) as report:
        return run(
            training,
            training.start(start),
            Streams([generator(seed, "training", device=device)], [1]),
            training.rounds,
            checkpoint=checkpoint,
            on_step=lambda done, info: report(
                done,
                f"loss {info.loss:.2f}, accepted {info.acceptance:.2f}, hidden {info.score:.3f}",
            ),
            stop=training.over,
        )


def _tried_mixtures(
    found: Copula, regions: Regions, hidden: Hidden, effort: Effort, seed: int, show: bool | None
) -> Array | None:
    """Return how well some mixtures find hidden values; None if there should not be any."""
    rows, columns = regions.low.shape
    if len(hidden.rows) < LEAST_HIDDEN or not effort.mixtures or not components_for(rows, columns):
        return None
    # Mixtures blur what nearly follows from other columns, and scores of all columns hide it.
    if float(precision_of(found.gaussian.covariance).diagonal().rsqrt().min()) < FOLLOWS:
        return None
    members = min(TRIED, effort.mixtures)
    with progress_bar("Trying mixtures", members, show=show) as report:
        some = fit_mixtures(found, members, seed, report)
    references = References(found.gaussian, regions, some.mean)
    with progress_bar("Scoring mixtures", len(hidden.rows), show=show) as report:
        return hidden_scores(some, references, hidden, seed, report)


def _others(found: Copula, regions: Regions, seed: int, ridge: float) -> Gaussian:
    """Return Gaussians that rows weighted at random would have led to."""
    rows = len(regions.low)
    width = regions.low.shape[1]
    affordable = int(OTHERS_PRODUCTS / (OTHERS * OTHERS_STEPS * width**3))
    most = min(OTHERS_ROWS, max(affordable, OTHERS_EACH * width))
    some = Regions(*(_some(end, most, seed) for end in regions))
    gaussian, scores, observed = found
    own = gaussian
    if len(some.low) < rows:
        own, scores, observed = copula(some, seed, ridge=ridge)
    # Of all rows others would differ by less than of some.
    share = (len(some.low) / rows) ** 0.5
    rng, moved_by_chance = np.random.default_rng([seed, 2]), []
    for other in range(OTHERS):
        weights = torch.as_tensor(rng.exponential(size=len(some.low)))
        moved = expectation_maximisation(
            scores[other % len(scores)],
            observed,
            weights=weights,
            start=own,
            ridge=ridge,
            tolerance=OTHERS_TOLERANCE,
            steps=OTHERS_STEPS,
        )
        nearer = Gaussian(*(a.lerp(b, share) for a, b in zip(own, moved, strict=True)))
        moved_by_chance.append(_carried(gaussian, own, nearer))
    return Gaussian(*(torch.stack(parts) for parts in zip(*moved_by_chance, strict=True)))


def _carried(gaussian: Gaussian, before: Gaussian, after: Gaussian) -> Gaussian:
    """Move a Gaussian as another one moved: by the map that takes its root to the new one's."""
    if gaussian is before:
        return after
    root, new = (torch.linalg.cholesky(own.covariance) for own in (before, after))
    turn = torch.linalg.solve_triangular(root, new, upper=False, left=False)
    mean = after.mean + turn @ (gaussian.mean - before.mean)
    return Gaussian(mean, turn @ gaussian.covariance @ turn.mT)


def _some(table: Array, most: int, seed: int) -> Array:
    """Return so many rows at random, in their order; all, if there are no more."""
    if len(table) <= most:
        return table
    return table[np.sort(np.random.default_rng([seed, 3]).permutation(len(table))[:most])]
