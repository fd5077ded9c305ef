"""Logarithmic axes of figures whose labels are plain numbers, and not too few of them."""

from __future__ import annotations

from typing import Any

import numpy as np

# Decades that an axis has at most, and where a decade then has labels.
STEPS = ((1.0, range(1, 10)), (1.6, (1, 2, 3, 5, 7)), (3.2, (1, 2, 5)), (np.inf, (1,)))
# On fewer decades even nine to a decade may be none: labels are as on any axis.
NARROW = 0.3


def logarithmic(axis: Any) -> None:
    """Make an axis of a figure logarithmic, between the limits that it has when all is drawn.

    Args:
        axis: `axes.xaxis` or `axes.yaxis`.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    low, high = sorted(axis.get_view_interval())
    decades = float(np.log10(high / low))
    steps = next(steps for most, steps in STEPS if decades <= most)
    few = decades < NARROW
    axis.set_major_locator(MaxNLocator(5) if few else LogLocator(subs=tuple(steps), numticks=40))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())
