"""A progress bar for anything over a few seconds; in a file, a line a minute; else nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, str], None]
"""Called with the number of steps done and a few words on how it goes."""

# Seconds from one line to the next.
BETWEEN_LINES = 60.0
# Words of a run that goes on: a line says so at once.
GOING_ON = "resuming at"


def in_silence(done: int, words: str) -> None:
    """Show nothing."""


def going_on(report: Progress, step: str) -> Callable[[int], None]:
    """Return what tells, once, how many steps were done before: a bar begins there.

    Args:
        report: shows it.
        step: what one is called.
    """
    return lambda done: report(done, f"{GOING_ON} {step} {done + 1}")


@contextmanager
def progress_bar(title: str, total: int, *, show: bool | None = None) -> Iterator[Progress]:
    """Yield a function to call after each step.

    Args:
        title: what is being done.
        total: how many steps there are.
        show: True or False; None shows the bar on a terminal only. What is neither a terminal nor
            a notebook gets lines.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield in_silence
        return
    from rich.console import Console

    if not sys.stderr.isatty() and not Console().is_jupyter:
        yield _lines(title, total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, words="")
        yield lambda done, words: bar.update(task, completed=done, words=words)


def _lines(title: str, total: int) -> Progress:
    """Return a function that says now and then, in a line, how far it has come."""
    began = said = time.monotonic()

    def report(done: int, words: str) -> None:
        nonlocal said
        if words.startswith(GOING_ON):
            print(f"{title}: {words} of {total:,}", file=sys.stderr, flush=True)
            return
        now = time.monotonic()
        if now - said < BETWEEN_LINES:
            return
        said, minutes = now, (now - began) / 60
        told = f"{title}: {done:,} of {total:,} after {minutes:.1f} minutes"
        print(f"{told}; {words}" if words else told, file=sys.stderr, flush=True)

    return report
