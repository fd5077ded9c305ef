"""How near the imputer is to its limit: the time of its matrix products and random numbers alone.

    python benchmarks/limit.py --table red-wine.csv
    python benchmarks/limit.py --rows 1599 --columns 12 --effort fast

A table (made up, unless one is given) loses half of its values, and is learned and filled three
times: to warm up, with a clock, and while every matrix product and every draw of random numbers is
noted. What was noted is then done by itself: the same operations on the same shapes, layouts and
types, as often as they were done. Also printed: where the time of the rest goes, by operation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from plmcmc import FlowImputer

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linalg_cholesky_ex", "linalg_solve_triangular")
RANDOM = ("normal_", "uniform_", "randn", "rand", "randperm", "randint", "bernoulli_")
MISSING = 0.5
# Seconds to spend on timing one kind of operation.
TIMED = 0.05


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    table = _table(arguments)
    print(f"{table.shape[0]} rows, {table.shape[1]} columns, effort {arguments.effort}, one thread")
    work = {"learning": lambda: _learned(table, arguments)}
    imputer = _learned(table, arguments)
    work["filling"] = lambda: imputer.transform(table)
    for name, own in work.items():
        began = time.perf_counter()
        own()
        seconds = time.perf_counter() - began
        noted = Noted()
        with noted:
            own()
        needed = {kind: noted.needed(names) for kind, names in KINDS.items()}
        limit = sum(needed.values())
        words = ", ".join(f"{kind} {value:.2f} s" for kind, value in needed.items())
        print(f"{name}: {seconds:.2f} s; {words}; ratio {seconds / limit:.2f}", flush=True)
        if arguments.profile:
            _profile(own)


KINDS = {"products": PRODUCTS, "random numbers": RANDOM}


class Noted(TorchDispatchMode):
    """Notes which products and draws are done, and on what."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple] = Counter()
        self.calls: dict[tuple, Callable[[], Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        kwargs = kwargs or {}
        if name in PRODUCTS + RANDOM:
            key = (name, *(_kind(part) for part in args), repr(sorted(kwargs)))
            self.counts[key] += 1
            if key not in self.calls:
                own = [_copied(part) for part in args]
                self.calls[key] = lambda: func(*own, **kwargs)
        return func(*args, **kwargs)

    def needed(self, names: tuple[str, ...]) -> float:
        """Return the seconds that these operations take by themselves."""
        return sum(
            count * _timed(self.calls[key]) for key, count in self.counts.items() if key[0] in names
        )


def _kind(part: Any) -> Any:
    if isinstance(part, Tensor):
        return (tuple(part.shape), tuple(part.stride()), part.dtype)
    return repr(part)


def _copied(part: Any) -> Any:
    return part.detach().clone() if isinstance(part, Tensor) else part


def _timed(call: Callable[[], Any]) -> float:
    """Return the seconds of one call, the mean of many."""
    call()
    began, times = time.perf_counter(), 0
    while times < 3 or time.perf_counter() - began < TIMED:
        call()
        times += 1
    return (time.perf_counter() - began) / times


def _profile(work: Callable[[], Any]) -> None:
    with torch.profiler.profile() as found:
        work()
    print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=25))


def _learned(table: np.ndarray, arguments: argparse.Namespace) -> FlowImputer:
    imputer = FlowImputer(arguments.effort, random_state=arguments.seed, progress=False)
    return imputer.fit(table)


def _table(arguments: argparse.Namespace) -> np.ndarray:
    rng = np.random.default_rng(arguments.seed)
    if arguments.table is None:
        root = rng.normal(size=(arguments.columns, arguments.columns))
        whole = np.tanh(rng.normal(size=(arguments.rows, arguments.columns)) @ root)
        whole += 0.1 * rng.normal(size=whole.shape)
    else:
        whole = pd.read_csv(arguments.table).to_numpy(dtype=np.float64)
    return np.where(rng.random(whole.shape) < MISSING, np.nan, whole)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--table", help="a CSV file of numbers without gaps")
    add("--rows", type=int, default=1599, help="of the made-up table")
    add("--columns", type=int, default=12, help="of the made-up table")
    add("--effort", default="default", choices=("fast", "default", "thorough"))
    add("--profile", action="store_true", help="print where the time goes, too")
    add("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
