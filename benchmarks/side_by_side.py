"""Parts of experiments side by side on one machine, and their numbers together.

    python benchmarks/side_by_side.py -o OUT --scale full --data DIR --device cuda --seconds 570 \\
        "table1:I.M. 0.6, training 0, PL-MCMC" "table1:P.M. 0.6, training 0, PL-MCMC" \\
        "efficiency-auxiliary:converged mean + efficiency-auxiliary + efficiency-perturbation"

Each argument is a process: an experiment, or some one after another, each with what `--only` would
be told. A GPU whose one process leaves it idle does more for several (start its MPS daemon first).
Trained flows are shared in OUT/shared. Whatever is finished is merged into OUT/NAME-SCALE, whose
reports are written at the end; after `--seconds` those that still run are stopped, and the same
command goes on with them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from plmcmc.disk import locked
from plmcmc.experiments import CATALOGUE, SCALES, experiment_of
from plmcmc.experiments.ledger import LINES, Ledger
from plmcmc.experiments.reproduce import SHARED, reproduce


def main(argv: Sequence[str] | None = None) -> int:
    """Run all processes to their end or for so long; return how many failed."""
    arguments = _arguments(argv)
    shared = arguments.output / SHARED
    shared.mkdir(parents=True, exist_ok=True)
    running = {work: _started(work, arguments) for work in arguments.works}
    try:
        _wait([*running.values()], arguments.seconds)
    finally:
        # Whatever ends this ends them, too: they would hold on to their directories.
        stopped = [work for work, own in running.items() if own.poll() is None]
        for work in stopped:
            os.killpg(running[work].pid, signal.SIGTERM)
    failed = 0
    for work, own in running.items():
        code = own.wait()
        lost = code != 0 and work not in stopped
        failed += lost
        said = "stopped" if work in stopped else f"failed ({code})" if lost else "done"
        # Of what is done, the log ends with the whole report.
        last = "" if said == "done" else f"; {_last_line(_home(work, arguments) / 'log')}"
        print(f"{work}: {said}{last}")
    for name in sorted({name for work in arguments.works for name, _ in _steps(work)}):
        _merge(name, arguments)
    return failed


def _wait(running: list[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait until all have ended, or for so long."""
    began = time.monotonic()
    while any(own.poll() is None for own in running) and time.monotonic() - began < seconds:
        time.sleep(1)


def _started(work: str, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start one process, which goes through its steps."""
    home = _home(work, arguments)
    home.mkdir(parents=True, exist_ok=True)
    if not (home / SHARED).exists():
        (home / SHARED).symlink_to((arguments.output / SHARED).resolve())
    commands = [_command(name, only, home, arguments) for name, only in _steps(work)]
    # One after the other, in a process of its own.
    code = "import subprocess, sys, json\nfor c in json.loads(sys.argv[1]):\n"
    code += "    if failed := subprocess.run(c).returncode: sys.exit(failed)"
    with (home / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(commands)],
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            process_group=0,
        )


def _command(name: str, only: str, home: Path, arguments: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "plmcmc", "reproduce", name, "-o", str(home)]
    command += ["--scale", arguments.scale, "--device", arguments.device]
    command += ["--data", str(arguments.data)] if arguments.data is not None else []
    return command + (["--only", only] if only else [])


def _steps(work: str) -> list[tuple[str, str]]:
    """Return experiments, and what of each."""
    named = (step.strip().partition(":") for step in work.split(" + "))
    return [(name, only) for name, _, only in named]


def _home(work: str, arguments: argparse.Namespace) -> Path:
    return arguments.output / "processes" / sha256(work.encode()).hexdigest()[:12]


def _merge(name: str, arguments: argparse.Namespace) -> None:
    """Take over parts that are not there yet, and report."""
    kind, experiment = f"{name}-{arguments.scale}", experiment_of(name, arguments.scale)
    whole = arguments.output / kind
    whole.mkdir(parents=True, exist_ok=True)
    with locked(whole / LINES):
        ledger = Ledger(whole, experiment.settings(), experiment.settings_of)
        for own in sorted((arguments.output / "processes").glob(f"*/{kind}/{LINES}")):
            ledger.take(own.parent)
    if ledger:
        asked = {"output": arguments.output, "data": arguments.data, "device": arguments.device}
        reproduce(name, arguments.scale, **asked, report_only=True, say=lambda words: None)
    print(f"{kind}: {len(ledger)} parts")


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _work(text: str) -> str:
    """Return it if its experiments exist: on a machine by the hour, hours later would be late."""
    unknown = [name for name, _ in _steps(text) if name not in CATALOGUE]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown experiment {unknown[0]!r}: choose one of {', '.join(CATALOGUE)}"
        )
    return text


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    works = "NAME[:ONLY][ + NAME[:ONLY]]..."
    parser.add_argument("works", nargs="+", metavar=works, type=_work)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--scale", default="full", choices=SCALES)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
