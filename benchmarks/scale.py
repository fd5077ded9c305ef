"""How `plmcmc impute --engine ray` scales: rows a second, memory of workers, cost per row.

    OMP_NUM_THREADS=1 python benchmarks/scale.py --rows 10000 100000 1000000 --workers 1 2
    OMP_NUM_THREADS=1 python benchmarks/scale.py --only 100000x1 100000x2 1000000x2

Tables of 20 columns (six factors, noise, every third column skewed), 20% missing at random, in
files of 125,000 rows; a model of `--effort fast`, fitted to a sample of rows. Every size is run by
every number of workers (or only those named, ROWSxWORKERS), each as a command of its own. Times of
processors are the workers' own, of all their threads, less those of a run of a few rows (start,
imports, loading the model): they tell what a row costs also where others use the machine. Memory is
the most that a worker had in it at once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

COLUMNS, FACTORS, MISSING, FILE_ROWS = 20, 6, 0.2, 125_000
FEW = 8
# As Ray calls the processes of its workers.
WORKER = re.compile(rb"^ray::.*MapWorker")
TICKS = os.sysconf("SC_CLK_TCK")


def write(folder: Path, rows: int) -> list[Path]:
    """Write a table, in files."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(FACTORS, COLUMNS))
    paths = []
    for first in range(0, rows, FILE_ROWS):
        here = min(FILE_ROWS, rows - first)
        x = rng.normal(size=(here, FACTORS)) @ loadings + 0.5 * rng.normal(size=(here, COLUMNS))
        x[:, ::3] = np.exp(0.3 * x[:, ::3])
        x[rng.random(x.shape) < MISSING] = np.nan
        paths.append(folder / f"rows-{first:08d}.parquet")
        pd.DataFrame(x, columns=[f"c{n}" for n in range(COLUMNS)]).to_parquet(paths[-1])
    return paths


def workers(command: int) -> dict[int, tuple[float, float]]:
    """Return seconds of processors and megabytes at most of every worker of a command."""
    parents, found = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            own, stat = int(place.name), (place / "stat").read_text().rpartition(")")[2].split()
            parents[own] = int(stat[1])
            if WORKER.match((place / "cmdline").read_bytes()):
                most = re.search(r"VmHWM:\s+(\d+) kB", (place / "status").read_text())
                seconds = (int(stat[11]) + int(stat[12])) / TICKS
                found[own] = (seconds, int(most[1]) / 1024 if most else 0.0)
        except (OSError, IndexError):
            continue

    def descends(own: int) -> bool:
        return own == command or (own in parents and descends(parents[own]))

    # Others may have Ray at work on this machine, too.
    return {own: told for own, told in found.items() if descends(own)}


def measured(paths: list[Path], model: Path, out: Path, count: int) -> dict[str, float]:
    """Run the command, and return how long it took, and what its workers took."""
    shutil.rmtree(out, ignore_errors=True)
    words = ["impute", *map(str, paths), "--model", str(model), "-o", f"{out}/"]
    words += ["--engine", "ray", "--num-workers", str(count)]
    began, seen = time.perf_counter(), {}
    with tempfile.TemporaryFile() as log:
        run = subprocess.Popen([sys.executable, "-m", "plmcmc", *words], stdout=log, stderr=log)
        while run.poll() is None:
            seen |= workers(run.pid)
            time.sleep(0.25)
        if run.returncode:
            log.seek(0)
            raise SystemExit(log.read().decode())
    wall = time.perf_counter() - began
    return {
        "wall": wall,
        "cpu": sum(seconds for seconds, _ in seen.values()),
        "memory": max((most for _, most in seen.values()), default=float("nan")),
    }


def main() -> None:
    """Measure, and print lines as they come."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", metavar="ROWSxWORKERS")
    parser.add_argument("-o", "--output", type=Path, help="lines of JSON, too")
    arguments = parser.parse_args()
    pairs = [(rows, count) for rows in arguments.rows for count in arguments.workers]
    if arguments.only:
        pairs = [(int(a), int(b)) for a, _, b in (own.partition("x") for own in arguments.only)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model, few = folder / "model", write(folder / "few", FEW)
        learn = write(folder / "learn", 20_000)
        command = [sys.executable, "-m", "plmcmc", "fit", *map(str, learn), "-o", str(model)]
        subprocess.run([*command, "--effort", "fast"], check=True, stdout=subprocess.DEVNULL)
        for rows, count in pairs:
            start = measured(few, model, folder / "out", count)
            paths = write(folder / f"data-{rows}-{count}", rows)
            found = measured(paths, model, folder / "out", count)
            shutil.rmtree(folder / f"data-{rows}-{count}")
            # Of a few rows there is one task, and one worker.
            own = max(found["cpu"] - count * start["cpu"], 0.0)
            line = {
                "rows": rows,
                "workers": count,
                "wall s": round(found["wall"], 1),
                "start s": round(start["wall"], 1),
                "rows/s": round(rows / found["wall"]),
                "rows/s after the start": round(rows / (found["wall"] - start["wall"])),
                "cpu ms/row": round(1000 * own / rows, 3),
                "rows/s and core": round(rows / own),
                "MB/worker": round(found["memory"]),
                "load": os.getloadavg()[1],
            }
            print(line, flush=True)
            if arguments.output:
                with arguments.output.open("a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
