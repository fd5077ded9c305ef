"""What goes wrong in bulk imputation, on purpose: in the end every file must have the same bytes.

    OMP_NUM_THREADS=1 python benchmarks/faults_ray.py            # all; Linux, root for full disks
    OMP_NUM_THREADS=1 python benchmarks/faults_ray.py --only node

- workers: 1, 2 and 4 of them, and none (`--engine stream`), write the same bytes;
- worker: one of two is killed (SIGKILL), three times;
- node: one of two local Ray nodes is lost, with the worker on it;
- driver: the command itself is killed; run again, it does only what is missing;
- corrupt: a damaged file among many is told of, the others are done, exit code 1;
- disk: the output's disk is full; with room, the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from plmcmc import FlowImputer
from plmcmc.imputation import Effort
from plmcmc.training.tables.settings import TableTraining

FILES, ROWS = 4, 10_000
# What is done in a second of work does not matter here, that there are some does.
EFFORT = Effort(
    members=2,
    mixtures=0,
    couplings=2,
    width=16,
    training=TableTraining(updates=20, batch=32),
    chains=1,
    burn_in=4,
    states=9,
)
PART = "plmcmc.part"


def prepared(folder: Path) -> tuple[list[Path], Path]:
    """Write files, and a model of them."""
    rng, paths = np.random.default_rng(0), []
    (folder / "data").mkdir()
    for number in range(FILES):
        x = rng.normal(size=(ROWS, 1)) + rng.normal(size=(ROWS, 6))
        x[rng.random(x.shape) < 0.2] = np.nan
        paths.append(folder / "data" / f"{number}.parquet")
        pd.DataFrame(x, columns=list("abcdef")).to_parquet(paths[-1])
    model = FlowImputer(EFFORT, random_state=0).fit(pd.read_parquet(paths[0]).iloc[:500])
    return paths, model.save(folder / "model")


class Command:
    """`plmcmc impute`, begun."""

    def __init__(self, paths: list[Path], model: Path, out: Path, *more: str) -> None:
        words = ["impute", *map(str, paths), "--model", str(model), "-o", f"{out}/", *more]
        self.out, self.began = out, time.perf_counter()
        self.run = subprocess.Popen(
            [sys.executable, "-m", "plmcmc", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for_parts(self, count: int) -> None:
        """Wait until so many parts are done, or it has ended."""
        manifest = self.out / PART / "manifest.jsonl"
        while self.run.poll() is None:
            if manifest.exists() and manifest.read_text().count('{"part"') >= count:
                return
            time.sleep(0.05)

    def end(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it said."""
        said, _ = self.run.communicate()
        return self.run.returncode, said


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, by name."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def workers_of(process: int) -> list[int]:
    """Return the processes of Ray's workers that descend from a process."""
    parents, named = {}, []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int(
                (place / "stat").read_text().rpartition(")")[2].split()[1]
            )
            if b"MapWorker" in (place / "cmdline").read_bytes():
                named.append(int(place.name))
        except (OSError, IndexError):
            continue

    def descends(own: int) -> bool:
        return own == process or (own in parents and descends(parents[own]))

    return sorted(own for own in named if descends(own))


class Faults:
    """The faults, each a method that says what it saw; it is wrong if bytes are not the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths, self.model = prepared(folder)
        code, said = self.command("whole").end()
        if code:
            raise SystemExit(said)
        self.whole = contents(folder / "whole")

    def command(self, name: str, *more: str) -> Command:
        """Begin the command with an output of this name."""
        return Command(self.paths, self.model, self.folder / name, *more)

    def same(self, name: str) -> bool:
        """Whether an output is as if nothing had happened."""
        return contents(self.folder / name) == self.whole

    def workers(self) -> dict[str, object]:
        """Other numbers of workers."""
        found = {}
        for count in (1, 2, 4):
            if count > len(os.sched_getaffinity(0)):
                continue  # They are refused.
            code, _ = self.command(f"w{count}", *on_ray(count)).end()
            found[f"{count} workers"] = (code, self.same(f"w{count}"))
        return found

    def worker(self) -> dict[str, object]:
        """A worker killed three times."""
        command, killed = self.command("worker", *on_ray(2)), 0
        for parts in (1, 3, 5):
            command.wait_for_parts(parts)
            for process in workers_of(command.run.pid)[:1]:
                os.kill(process, signal.SIGKILL)
                killed += 1
        code, _ = command.end()
        return {"killed": killed, "exit": code, "same bytes": self.same("worker")}

    def node(self) -> dict[str, object]:
        """One of two nodes lost."""
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        try:
            second = cluster.add_node(num_cpus=1)
            command = self.command("node", "--engine", "ray", "--address", cluster.address)
            command.wait_for_parts(3)
            cluster.remove_node(second, allow_graceful=False)
            code, said = command.end()
        finally:
            cluster.shutdown()
        seconds = round(time.perf_counter() - command.began)
        return {"exit": code, "same bytes": self.same("node"), "s": seconds, "said": last(said)}

    def driver(self) -> dict[str, object]:
        """The command killed, and run again."""
        command = self.command("driver", *on_ray(2))
        command.wait_for_parts(3)
        command.run.send_signal(signal.SIGKILL)
        command.end()
        code, said = self.command("driver", *on_ray(2)).end()
        kept = next(line for line in said.splitlines() if line.startswith("Resuming"))
        return {"exit": code, "same bytes": self.same("driver"), "said": kept.partition("which")[2]}

    def corrupt(self) -> dict[str, object]:
        """A damaged file, with a footer that can be read: found by a worker, in the middle."""
        bad = bytearray(self.paths[1].read_bytes())
        whole = bytes(bad)
        bad[4:2000] = bytes(1996)
        self.paths[1].write_bytes(bad)
        first, said = self.command("corrupt", *on_ray(2)).end()
        done = sorted(path.name for path in (self.folder / "corrupt").glob("*.parquet"))
        self.paths[1].write_bytes(whole)
        code, _ = self.command("corrupt", *on_ray(2)).end()
        told = next((line for line in said.splitlines() if "not filled" in line), "")
        return {
            "exit": first,
            "done": done,
            "told": told.partition("not filled: ")[2].rpartition("/")[2][:90],
            "mended, exit": code,
            "same bytes": self.same("corrupt"),
        }

    def disk(self) -> dict[str, object]:
        """A full disk."""
        place = self.folder / "disk"
        place.mkdir()
        mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
        try:
            first, said = self.command("disk/out", *on_ray(2)).end()
            mount("-o", "remount,size=100m", str(place))
            code, _ = self.command("disk/out", *on_ray(2)).end()
            same = self.same("disk/out")
        finally:
            subprocess.run(["umount", str(place)], check=True)
        told = next((line for line in said.splitlines() if "could not be written" in line), "")
        told = told.partition("could not")[2]
        return {"exit": first, "told": told[:150], "with room, exit": code, "same bytes": same}


def on_ray(count: int) -> tuple[str, ...]:
    """Return the options for so many workers."""
    return ("--engine", "ray", "--num-workers", str(count))


def last(said: str) -> str:
    """Return the last line of what was said."""
    return said.strip().splitlines()[-1]


def mount(*words: str) -> None:
    """Mount, or mount again."""
    subprocess.run(["mount", *words], check=True)


def main() -> None:
    """Try faults, and print what was seen."""
    faults = ("workers", "worker", "node", "driver", "corrupt", "disk")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=faults, default=faults)
    with tempfile.TemporaryDirectory() as scratch:
        found = Faults(Path(scratch))
        for name in parser.parse_args().only:
            print(name, json.dumps(getattr(found, name)()), flush=True)


if __name__ == "__main__":
    main()
