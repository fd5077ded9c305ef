"""A progress bar for anything over a few seconds; nothing when nobody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, str], None]
"""Called with the number of steps done and a few words on how it goes."""


def in_silence(done: int, words: str) -> None:
    """Show nothing."""


@contextmanager
def progress_bar(title: str, total: int, *, show: bool | None = None) -> Iterator[Progress]:
    """Yield a function to call after each step.

    Args:
        title: what is being done.
        total: how many steps there are.
        show: True or False; None shows the bar on a terminal only.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield in_silence
        return
    from rich.console import Console
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
