"""What a command tells the person who typed it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from plmcmc.cli.printable import printable
from plmcmc.posterior import ConvergenceWarning, StuckWarning

_silent = False


@contextmanager
def silence() -> Iterator[None]:
    """Say nothing, and warn of nothing, for a while: another process does."""
    global _silent
    _silent = True
    try:
        yield
    finally:
        _silent = False


def say(text: str) -> None:
    """Print a line of text."""
    if _silent:
        return
    # Names of columns and files may look like markup; long lines are for the terminal to wrap.
    Console().print(printable(text), markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning, where errors go."""
    if not _silent:
        print(f"plmcmc: warning: {printable(text)}", file=sys.stderr)


@contextmanager
def warnings_in_words() -> Iterator[None]:
    """Print warnings without the line of code that gave them."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(str(message))

    with warnings.catch_warnings():
        # The command says itself what has not converged or moved, in terms of its own options.
        for told in (ConvergenceWarning, StuckWarning):
            warnings.simplefilter("ignore", told)
        warnings.showwarning = show
        yield
