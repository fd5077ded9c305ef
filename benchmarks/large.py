"""A large table filled by the imputer: rows a second, and whether memory grows.

    OMP_NUM_THREADS=1 python benchmarks/large.py --rows 1000000
    OMP_NUM_THREADS=1 python benchmarks/large.py --rows 1000000 --fill 6000

A table of 20 columns that hang together, a fifth of it missing, is learned from and filled with
`effort="fast"`. Memory is what the process holds: when filling begins, and at most until it ends.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from pathlib import Path

import numpy as np

from plmcmc import FlowImputer

COLUMNS, FACTORS, MISSING = 20, 5, 0.2
SECONDS = 60.0


def main() -> None:
    arguments = _arguments()
    table = _table(arguments.rows)
    model = FlowImputer(effort="fast", random_state=0, progress=False)
    began = time.perf_counter()
    model.fit(table)
    print(f"{arguments.rows:,} x {COLUMNS}: learned in {time.perf_counter() - began:.1f} s")
    part = table[: arguments.fill]
    _watched(began := time.perf_counter())
    before = _resident()
    filled = model.transform(part)
    seconds = time.perf_counter() - began
    assert not np.isnan(filled).any()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{len(part):,} rows filled in {seconds:.1f} s: {len(part) / seconds:,.0f} rows/s")
    print(
        f"memory: {before:.2f} GB when it began, {_resident():.2f} at the end, {peak:.2f} at most"
    )


def _table(rows: int) -> np.ndarray:
    source = np.random.default_rng(0)
    factors = source.standard_normal((rows, FACTORS))
    table = factors @ source.standard_normal((FACTORS, COLUMNS))
    # Half of the columns are bent, so that no Gaussian fits.
    table[:, ::2] = np.tanh(table[:, ::2]) + 0.1 * factors[:, :1] ** 2
    table += 0.3 * source.standard_normal(table.shape)
    table[source.random(table.shape) < MISSING] = np.nan
    return table


def _watched(began: float) -> None:
    """Print the memory every minute, beside the work."""

    def watch() -> None:
        while True:
            time.sleep(SECONDS)
            print(f"  {time.perf_counter() - began:6.0f} s {_resident():.2f} GB", flush=True)

    threading.Thread(target=watch, daemon=True).start()


def _resident() -> float:
    """Return the gigabytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="to learn from (%(default)s)")
    add("--fill", type=int, help="rows to fill (all of them)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
