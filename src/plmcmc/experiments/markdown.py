"""Numbers as the paper prints them, and tables of them as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

# One name for each sampler, in all that is shown: the paper's, and ours, in full and in short.
PL_MCMC, OURS, OURS_IN_SHORT = (
    "PL-MCMC (Algorithm 1)",
    "plmcmc's default sampler",
    "default sampler",
)


def with_error(values: Iterable[float]) -> str:
    """Return a mean with the standard error of its last digit in brackets, as the paper does.

    Example:
        >>> with_error([0.55, 0.58, 0.61]), with_error([0.5]), with_error([])
        ('0.58(2)', '0.500', '')
    """
    given = np.array([own for own in values if math.isfinite(own)], dtype=np.float64)
    if not len(given):
        return ""
    mean = float(given.mean())
    if len(given) == 1:
        return f"{mean:.3f}"
    error = float(given.std(ddof=1)) / len(given) ** 0.5
    # Four digits at most: equal values have no error.
    digits = min(4, max(0, -math.floor(math.log10(error)))) if error > 0 else 4
    last = round(error * 10**digits)
    if last == 10 and digits > 0:
        digits, last = digits - 1, 1
    return f"{mean:.{digits}f}({last})"


def over_replications(counts: Iterable[int]) -> str:
    """Return what numbers are that so many replications have: means, with an error if any has one.

    Args:
        counts: replications of each number.

    Example:
        >>> over_replications([1, 1])
        'one replication, no error'
        >>> over_replications([3, 3])
        'mean over 3 replications, with the standard error of its last digit in brackets'
        >>> over_replications([1, 3])
        'mean over 1 to 3 replications, ...; no error where there is only one'
    """
    least, most = min(own := list(counts)), max(own)
    if most == 1:
        return "one replication, no error"
    words = f"mean over {least if least == most else f'{least} to {most}'} replications, "
    words += "with the standard error of its last digit in brackets"
    return words + ("; no error where there is only one" if least == 1 else "")


def table(corner: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table as Markdown; rows with nothing in them are left out."""
    lines = [_row(corner, columns), "|" + "---|" * (len(columns) + 1)]
    lines += [_row(name, cells) for name, cells in rows if any(cells)]
    return "\n".join(lines) + "\n"


def row_label(row: str) -> str:
    """Return what a row of a table is called: two names that differ by capitals are one too many.

    Example:
        >>> row_label("plmcmc, single"), row_label("PL-MCMC, single")
        ('ours (plmcmc), single', 'PL-MCMC, single')
    """
    return row.replace("plmcmc", "ours (plmcmc)")


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first few of some names, and how many more there are.

    Example:
        >>> first_few(["a", "b, c", "d"], 2), first_few(["a"], 2)
        ('a; b, c; and 1 more', 'a')
    """
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return "; ".join([*names[:most], *more])


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {' | '.join([name, *cells])} |"
