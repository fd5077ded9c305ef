"""What is hidden of digits, by the names that the paper has for it (D.3)."""

from __future__ import annotations

from plmcmc.data import Independent, Mechanism, Patch, SquareObservation


def mechanism_of(cell: str) -> Mechanism:
    """Return the mechanism of a cell such as `"I.M. 0.6"`."""
    kind, rate = cell.split(" ")
    return MECHANISMS[kind](float(rate))


def _square(rate: float) -> SquareObservation:
    """Return squares of one side: with two, means are off the paper's by up to a sixth."""
    return SquareObservation(rate, exact=False)


MECHANISMS = {"I.M.": Independent, "S.O.": _square, "P.M.": Patch}

# How the paper's words for them are read.
GEOMETRY = (
    "S.O. shows one square of a fixed side, the integer nearest to sqrt((1 - rate) * pixels), "
    "placed anywhere within the image: mean imputation then has the paper's errors at all three "
    "rates of Table 1, which it does not with sides one pixel off.",
    "P.M. hides rectangles with sides uniform up to half of the image's, possibly extending "
    "beyond it, until the share is reached. The paper only says 'contiguous rectangular blocks'; "
    "mean imputation has errors of .2495, .2566 and .2578 with our masks, .2629, .2641 and .2622 "
    "in the paper, and none of the mask generators that were tried matches at all rates.",
)


def masks_of(*kinds: str) -> tuple[str, ...]:
    """Return how the paper is read where it tells of some kinds of masks, such as `"P.M."`."""
    return tuple(f"Masks (D.3, E.1): {own}" for own in GEOMETRY if own.startswith(kinds))
