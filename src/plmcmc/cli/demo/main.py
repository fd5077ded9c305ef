"""`plmcmc demo`: both jobs on embedded data, from learning to pictures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plmcmc.cli.demo.digits import complete_digits
from plmcmc.cli.demo.table import fill_table
from plmcmc.posterior import ConvergenceWarning


def demo(output: str | Path, seed: int) -> None:
    """Fill a table, then complete digits; write all there is to see into the directory `output`."""
    # Numbers in colours would draw the eye to each of them alike.
    console = Console(highlight=False)
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with _warnings_in_words(console):
        console.print("[bold]1. A table[/], half of its values hidden\n")
        written = fill_table(output, seed, console)
        console.print("\n[bold]2. Images[/], half of each hidden\n")
        written |= complete_digits(output, seed, console)
    console.print(f"\n[bold]Written to {escape(str(output))}[/]\n")
    console.print(_listed(written))
    console.print(
        f"\n{time.perf_counter() - began:.0f} s in all. Now try your own data: plmcmc impute "
        "TABLE.csv -o FILLED.csv"
    )


def _listed(written: Mapping[Path, str]) -> Table:
    """Return what was written, a line each."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for path, words in written.items():
        table.add_row(escape(path.name), words)
    return table


@contextmanager
def _warnings_in_words(console: Console) -> Iterator[None]:
    """Print warnings without the line of code that gave them."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        console.print(f"[yellow]{escape(str(message))}")

    with warnings.catch_warnings():
        # What has not converged is part of what the demo shows, whatever the filters say.
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.showwarning = show
        yield
