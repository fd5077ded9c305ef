"""Tables as text for the command line to read, and the command as a function."""

import csv
import io

import numpy as np

from plmcmc.cli import main

ROWS = 40


def text(rows=ROWS, separator=",", end="\n", seed=0):
    """A table with odd spellings, in every kind of column."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=rows)
    lines = [["id", "when", "size", "count", "colour", "code", '"a ""note"""']]
    for row in range(rows):
        hole = row % 5 == 2
        number = f"{size[row]:.2f}0" if row % 3 else f"{size[row]:.3e}"
        whole = "+3" if row % 7 == 0 else str(rng.poisson(4))
        colour = ('"red"', f'"blue{separator} dark"', "green")[row % 3]
        note = f'"line {row}\nsaid ""so"""'
        lines.append(
            [
                f"{row:03d}",
                f"2024-01-{row % 28 + 1:02d}",
                "NA" if hole else number,
                "" if row % 6 == 3 else whole,
                "?" if row % 8 == 5 else colour,
                ("007", "012")[row % 2],
                note,
            ]
        )
    return end.join(separator.join(line) for line in lines) + end


def run(*argv):
    return main([str(word) for word in argv])


def cells(content, separator=","):
    return list(csv.reader(io.StringIO(content, newline=""), delimiter=separator))
