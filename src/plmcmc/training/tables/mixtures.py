"""Mixtures of a table's scores, one beside the other, and how well they find hidden values."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from plmcmc.adaptation import tune
from plmcmc.chains import Progress, in_silence
from plmcmc.flows import GaussianMixture
from plmcmc.kernels import MixtureDraws, differentiated, table_moves
from plmcmc.rng import Streams, generator
from plmcmc.target import TableTarget
from plmcmc.training.tables.copula import Copula
from plmcmc.training.tables.mixture import STEPS, fit_mixture
from plmcmc.training.tables.references import References
from plmcmc.training.tables.validation import Hidden

# Rows for each component and column: many components fit noise, and the mean of mixtures does not.
EACH = 8
# Components of a mixture; of fewer it is next to a Gaussian, which the flow begins at.
LEAST, MOST = 3, 40
# Rows that a mixture learns from, at most, and products that its fitting may take.
MOST_ROWS, PRODUCTS = 4000, 3e9
# Draws of each mixture that a hidden value is scored by; rows worked on at once.
DRAWS, AT_ONCE = 16, 256
# Moves until ties lie where a mixture has them; their angle at first, and acceptance to tune it to.
# Of 1,000 rows with eight flags (seed 0, the error of each .015, but they share their rows) scores
# are .184 without moves, .172, .171, .170, .172 and .167 after 1, 2, 4, 8 and 16.
MOVES, ANGLE, ACCEPTANCE = 4, 0.5, 0.8


def components_for(rows: int, columns: int) -> int:
    """Return how many components a mixture of a table has; 0 if there are too few rows for any."""
    count = min(MOST, _affordable(rows, columns) // (EACH * columns))
    return count if count >= LEAST else 0


def fit_mixtures(
    copula: Copula, members: int, seed: int, report: Progress = in_silence
) -> GaussianMixture:
    """Fit mixtures, each from its own start.

    Args:
        copula: scores to fit to.
        members: how many mixtures.
        seed: of their starts.
        report: told how many have been fitted.
    """
    rows, columns = copula.observed.shape
    count, most, found = components_for(rows, columns), _affordable(rows, columns), []
    for member in range(members):
        source = generator(seed, "mixture", member)
        scores = copula.scores[member % len(copula.scores)]
        # Of many rows each has some of its own.
        own = torch.randperm(rows, generator=source)[:most].sort().values
        found.append(fit_mixture(scores[own], copula.observed[own], count, source))
        report(member + 1, f"of {count} Gaussians")
    return GaussianMixture.of(found)


@torch.no_grad()
def hidden_scores(
    flow: GaussianMixture,
    references: References,
    hidden: Hidden,
    seed: int,
    report: Progress = in_silence,
) -> NDArray[np.float64]:
    """Return how well mixtures find hidden values, `(values,)`, 0 at best.

    Args:
        flow: the mixtures.
        references: of all rows, the hidden values not among what is seen.
        hidden: the values.
        seed: of the draws.
        report: told how many rows have been filled.
    """
    places, found = DRAWS * flow.members, []
    for rows in torch.as_tensor(hidden.rows).split(AT_ONCE):
        reference = references.of(rows)
        streams = Streams([generator(seed, "hidden", int(rows[0]))], [len(rows) * places])
        start = streams.normal(reference.low.repeat_interleave(places, 0))
        draws = MixtureDraws(flow, reference, flow.members)
        position = draws(start, streams)[0]
        if len(reference.ties):
            # What a flag tells of the holes depends on where in its interval the score lies.
            target = TableTarget(flow, reference)
            position = tune(
                lambda steps, target=target, draws=draws: table_moves(target, steps, bold=[draws]),
                differentiated(target, position),
                torch.full((len(rows),), ANGLE, dtype=torch.float64),
                streams,
                wanted=ACCEPTANCE,
                largest=1.0,
                length=MOVES,
            ).state.position
        found.append(reference.outward(position)[0])
        report(sum(map(len, found)) // places, "")
    return hidden.scores(torch.cat(found).double().numpy())


def _affordable(rows: int, columns: int) -> int:
    """Return how many rows a mixture can learn from, with as many components as they allow."""
    # Each row and component takes a matrix's inversion in every step.
    return min(rows, MOST_ROWS, int((EACH * PRODUCTS / STEPS) ** 0.5 / columns))
