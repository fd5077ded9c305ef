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
    "S.O. shows one square of a fixed side, the whole number nearest to "
    "sqrt((1 - rate) * pixels), anywhere within the image: then imputing means has the paper's "
    "errors at all three rates of Table 1, and with sides one off it has not.",
    "P.M. hides rectangles with sides uniform up to half of the image's, which may overhang, until "
    "the share is reached. The paper says no more than 'contiguous rectangular blocks'; imputing "
    "means has .2495, .2566 and .2578 on ours, .2629, .2641 and .2622 on the paper's, which no "
    "generator that was tried has at all rates.",
)


def masks_of(*kinds: str) -> tuple[str, ...]:
    """Return how the paper is read where it tells of some kinds of masks, such as `"P.M."`."""
    return tuple(f"Masks (D.3, E.1): {own}" for own in GEOMETRY if own.startswith(kinds))
