"""Kill every command, at random and in the middle of writes; run it again; compare to the last bit.

    OMP_NUM_THREADS=1 python benchmarks/kills.py           # 100 random moments
    OMP_NUM_THREADS=1 python benchmarks/kills.py --writes  # 100 operations of the disk
    OMP_NUM_THREADS=1 python benchmarks/kills.py --places  # full and read-only disks; root, Linux
    OMP_NUM_THREADS=1 python benchmarks/kills.py --only sample --kills 5

Each job is first run undisturbed. Then processes of the same job get SIGKILL, up to three of them
one after the other, and a last one runs to its end. A job has *survived* a kill if all that then
stands in the place of a result is whole and the next process went on; it was *resumed* if that one
found something to go on from; it is *bit-equal* if in the end every file has the same bytes as that
of the undisturbed run, and nothing else is left behind. A job that was killed when its results
stood already, but for tidying up, has ended: the next process tidies up, and says that they exist.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

import plmcmc
from plmcmc import disk
from plmcmc.cli import main
from plmcmc.imputation import EFFORTS, Effort
from plmcmc.training.tables.settings import TableTraining

# Jobs are small, so that many can be killed: what is done per second of work does not matter here.
EFFORTS["fast"] = Effort(
    members=2,
    mixtures=0,
    couplings=2,
    width=8,
    training=TableTraining(updates=1000, batch=16),
    chains=1,
    burn_in=8,
    states=12,
)
# Imported once, not by every process that is killed.
MODULES = ("matplotlib.pyplot", "sklearn.datasets", "pandas", "arviz_stats", "plmcmc.experiments")
MODULES += ("plmcmc.cli.fit", "plmcmc.cli.fit_flow", "plmcmc.cli.impute", "torch._dynamo")
MODULES += ("torch._decomp.decompositions_for_jvp",)
CHAIN = 3
SIZES = (16, 48, 128, 256, 512, 768, 1024, 1536, 2048, 3072)
Bytes = dict[str, bytes]


@dataclass(frozen=True)
class Job:
    """A command: what runs it in a folder (given one of inputs), and what of its files may vary."""

    name: str
    run: Callable[[Path, Path], int]
    result: str


def command(*words: str) -> Callable[[Path, Path], int]:
    """Run a command; `IN` and `OUT` stand for folders."""

    def run(inputs: Path, out: Path) -> int:
        named = (word.replace("IN/", f"{inputs}/").replace("OUT", str(out)) for word in words)
        return main(list(named))

    return run


def sample(inputs: Path, out: Path) -> int:
    """The library's sampling, by the method that it chooses itself."""
    x = np.load(inputs / "rows.npy")
    flow = plmcmc.RealNVP(4, couplings=2, width=8, random_state=1)
    try:
        draws = plmcmc.condition(flow, x).sample(
            120,
            warmup=4,
            random_state=0,
            chunk_rows=64,
            checkpoint=out / "run",
            checkpoint_every=10,
        )
        draws.save(out / "draws.safetensors")
    except OSError as error:
        print(error)
        return 1
    return 0


JOBS = [
    Job("fit", command("fit", "IN/a.csv", "-o", "OUT/model", "--effort", "fast"), "model"),
    Job(
        "impute",
        command("impute", "IN/a.csv", "IN/b.csv", "-o", "OUT/filled", "--effort", "fast"),
        "filled",
    ),
    Job("reproduce", command("reproduce", "mnist", "--scale", "smoke", "-o", "OUT/r"), "r"),
    Job(
        "fit-flow",
        command(
            *("fit-flow", "IN/images.npy", "-o", "OUT/flow", "--flow", "nice", "--width", "32"),
            *("--bits", "4", "--epochs", "120", "--patience", "120"),
        ),
        "flow",
    ),
    Job("sample", sample, "draws.safetensors"),
]


def make_inputs(folder: Path) -> None:
    """Write small data of every kind."""
    rng = np.random.default_rng(0)
    for name in "ab":
        x = rng.normal(size=(100, 1)) + 0.5 * rng.normal(size=(100, 4))
        cells = np.where(rng.random(x.shape) < 0.2, "", x.round(4).astype(str))
        lines = ["w,x,y,z", *(",".join(row) for row in cells)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    rows = rng.normal(size=(150, 4)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.4] = np.nan
    np.save(folder / "rows.npy", rows)
    np.save(folder / "images.npy", rng.integers(0, 256, (200, 6, 6, 1), dtype=np.uint8))


def content(folder: Path) -> Bytes:
    """Every file that a job left, without what time and the clock put into it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): timeless(path) for path in files}


def timeless(path: Path) -> bytes:
    """A file's bytes; of archives what is in them, of numbers those that are no seconds.

    safetensors writes what a file says of itself in any order.
    """
    if path.suffix == ".safetensors" and ".partial" not in str(path):
        with safe_open(path, "np") as file:
            tensors = [(name, file.get_tensor(name)) for name in sorted(file.keys())]
            told = json.dumps(file.metadata(), sort_keys=True)
        parts = (
            f"{name} {own.dtype} {own.shape}".encode() + own.tobytes() for name, own in tensors
        )
        return told.encode() + b"".join(parts)
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays))
    if path.name == "numbers.jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            numbers = line.get("numbers", {})
            line["numbers"] = {key: numbers[key] for key in numbers if "seconds" not in key}
        return json.dumps(lines).encode()
    if path.name == "report.md":
        return without_seconds(path.read_text()).encode()
    return path.read_bytes()


def without_seconds(report: str) -> str:
    """A report without the columns of its tables that are headed by seconds."""
    lines, left_out = [], set()
    for line in report.splitlines():
        cells = line.split("|")
        if "seconds" in line:
            left_out = {place for place, own in enumerate(cells) if "seconds" in own}
        lines.append("|".join(own for place, own in enumerate(cells) if place not in left_out))
        left_out = left_out if line.startswith("|") else set()
    return "\n".join(lines)


def whole(folder: Path, wanted: Bytes, result: str) -> bool:
    """Whether all that stands in the place of a result is whole, and all checkpoints readable."""
    for name, own in content(folder).items():
        if ".partial" in name or ".replaced" in name:
            continue
        if name.endswith((".safetensors", ".checkpoint")):
            with safe_open(folder / name, "pt") as file:
                file.keys()
        if name.startswith(result) and name in wanted and "numbers" not in name:
            running = name.endswith(("report.md", ".png")) and result == "r"
            if own != wanted[name] and not running:
                return False
    return True


def kept(folder: Path) -> list[str]:
    """Return the files that a next process goes on from."""
    found = [name for name in content(folder) if ".partial" not in name]
    ends = (".safetensors", ".checkpoint", ".npz", "found.json")
    return [name for name in found if name.endswith(ends)]


def started(job: Job, inputs: Path, out: Path, prepare: Callable[[], object] = lambda: 0) -> int:
    """Run a job in a process of its own; all that it says goes to a file."""
    pid = os.fork()
    if pid:
        return pid
    words = os.open(out.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(words, 1)
    os.dup2(words, 2)
    warnings.simplefilter("ignore")
    code = 70
    try:
        prepare()
        code = job.run(inputs, out)
    finally:
        sys.stdout.flush()
        os._exit(code)


def ended(pid: int, after: float | None = None) -> int:
    """Return an exit code, or minus the signal; kill the process after so many seconds."""
    end = None if after is None else time.monotonic() + after
    while end is not None and time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    if end is not None:
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Trap:
    """Counts operations of the disk, and kills its own process in the middle of one of them."""

    def __init__(self, at: int, told: Path) -> None:
        self.at, self.count, self.told = at, 0, told

    def moment(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.at == 0:
            self.told.write_text(str(self.count))

    def set(self) -> None:
        whole_write = disk._write

        def write(temporary: Path, given: bytes, path: Path) -> None:
            with temporary.open("wb") as file:
                file.write(given[: len(given) // 2])
            self.moment()
            whole_write(temporary, given, path)

        disk._write = write
        for name in ("fsync", "replace", "unlink", "rmdir"):
            setattr(os, name, self.around(getattr(os, name)))

    def around(self, operation: Callable) -> Callable:
        def operated(*given: object, **options: object) -> object:
            self.moment()
            return operation(*given, **options)

        return operated


@dataclass
class Tally:
    kills: int = 0
    survived: int = 0
    resumed: int = 0
    jobs: int = 0
    equal: int = 0


def undisturbed(job: Job, inputs: Path, folder: Path) -> tuple[Bytes, float, int]:
    """Return what a job writes, how long it takes, and how often it goes to the disk."""
    out, told = folder / "whole", folder / "count"
    out.mkdir()
    began = time.monotonic()
    assert ended(started(job, inputs, out)) == 0, out.with_suffix(".log").read_text()
    took, wanted = time.monotonic() - began, content(out)
    counted = folder / "counted"
    counted.mkdir()
    assert ended(started(job, inputs, counted, Trap(0, told).set)) == 0
    assert content(counted) == wanted, "two undisturbed runs differ"
    return wanted, took, int(told.read_text())


def campaign(job: Job, kills: int, source: random.Random, *, writes: bool, folder: Path) -> Tally:
    """Kill a job so often, and return what came of it."""
    inputs, tally = folder / "in", Tally()
    wanted, took, operations = undisturbed(job, inputs, folder)
    while tally.kills < kills:
        out = folder / f"out-{tally.jobs}"
        out.mkdir()
        for _ in range(source.randint(1, CHAIN)):
            trap = Trap(source.randint(1, operations), folder / "none")
            prepare = trap.set if writes else lambda: 0
            after = None if writes else source.uniform(0, took)
            code = ended(started(job, inputs, out, prepare), after)
            if code != -signal.SIGKILL:
                break
            tally.kills += 1
            tally.resumed += bool(kept(out))
            tally.survived += whole(out, wanted, job.result)
        finish(job, inputs, out, wanted, tally)
    return tally


def finish(job: Job, inputs: Path, out: Path, wanted: Bytes, tally: Tally) -> None:
    """Run a job to its end, if it has not come there, and compare."""
    tally.jobs += 1
    if content(out) != wanted:
        code = ended(started(job, inputs, out))
        log = out.with_suffix(".log").read_text()
        ended_before = code == 2 and "exists: choose another name" in log
        if not (code == 0 or ended_before) or content(out) != wanted:
            tally.survived -= 1
            print(f"{job.name}: exit {code}\n{log[-500:]}", file=sys.stderr)
            found = content(out)
            names = {n for n in found.keys() | wanted.keys() if found.get(n) != wanted.get(n)}
            print(f"differing: {sorted(names)}", file=sys.stderr)
            return
    tally.equal += 1
    shutil.rmtree(out)


def mounted(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


def places(job: Job, folder: Path) -> tuple[int, int, int, str]:
    """Run a job on disks too small, then larger; and on a read-only one."""
    inputs, small = folder / "in", folder / "small"
    wanted, _, _ = undisturbed(job, inputs, folder)
    small.mkdir()
    full = clean = equal = 0
    words = ""
    for size in SIZES:
        mounted(small, f"size={size}k")
        try:
            code, log = run_there(job, inputs, small)
            if code == 0:
                break
            full += 1
            words = words or log.strip().splitlines()[-1]
            left = [name for name in content(small / "out") if ".partial" in name]
            told = code in (1, 2) and "Traceback" not in log and "No space left" in log
            clean += told and not left and whole(small / "out", wanted, job.result)
            subprocess.run(["mount", "-o", "remount,size=1g", str(small)], check=True)
            code, log = run_there(job, inputs, small)
            equal += code == 0 and content(small / "out") == wanted
        finally:
            subprocess.run(["umount", str(small)], check=True)
    mounted(small, "size=1m")
    (small / "out").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    try:
        code, log = run_there(job, inputs, small)
        print(f"{job.name}, read-only: exit {code}: {log.strip().splitlines()[-1]}")
    finally:
        subprocess.run(["umount", str(small)], check=True)
    return full, clean, equal, words


def run_there(job: Job, inputs: Path, place: Path) -> tuple[int, str]:
    out = place / "out"
    out.mkdir(exist_ok=True)
    # Words go elsewhere: there may be no room for them.
    log = place.with_suffix(".log")
    there = Job(job.name, lambda given, _: job.run(given, out), job.result)
    code = ended(started(there, inputs, log))
    return code, log.read_text()


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="in all (%(default)s)")
    parser.add_argument("--only", choices=[job.name for job in JOBS])
    parser.add_argument("--writes", action="store_true", help="kill in the middle of writes")
    parser.add_argument("--places", action="store_true", help="full and read-only disks")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in MODULES:
        import_module(name)
    jobs = [job for job in JOBS if arguments.only in (None, job.name)]
    source = random.Random(arguments.seed)
    head = "| command | kills | survived | resumed | jobs | bit-equal |\n|---|---|---|---|---|---|"
    if arguments.places:
        head = "| command | disks too full | told, nothing half-written | then bit-equal | said |"
        head += "\n|---|---|---|---|---|"
    lines = []
    for job in jobs:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "in").mkdir()
            make_inputs(folder / "in")
            if arguments.places:
                found = places(job, folder)
            else:
                share = -(-arguments.kills // len(jobs))
                tally = campaign(job, share, source, writes=arguments.writes, folder=folder)
                found = (tally.kills, tally.survived, tally.resumed, tally.jobs, tally.equal)
        lines.append(f"| {job.name} | {' | '.join(map(str, found))} |")
        print(lines[-1], flush=True)
    print("\n".join(["", head, *lines]))


if __name__ == "__main__":
    run()
