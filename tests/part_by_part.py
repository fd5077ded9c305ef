"""Files filled part by part, and stopped on the way."""

import os
from pathlib import Path

from plmcmc.distributed import impute, worker

PART, ROWS = 64, (150, 64, 100)


def filled(data, model, out, **options):
    return impute(data, model, out, progress=False, tell=lambda words: None, **options)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def interrupted_after(parts, monkeypatch):
    """Have the work stopped after so many parts."""
    work, count = worker.Worker._done, iter(range(parts))

    def stops(self, *given):
        if next(count, None) is None:
            raise KeyboardInterrupt
        return work(self, *given)

    monkeypatch.setattr(worker.Worker, "_done", stops)


def touched_at_work(path, monkeypatch):
    """Have a file written again, as it was, after each part."""
    work = worker.Worker._done

    def touches(self, *given):
        told = work(self, *given)
        os.utime(path, (1, 1))
        return told

    monkeypatch.setattr(worker.Worker, "_done", touches)
