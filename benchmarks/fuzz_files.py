"""Files spoilt at random: nothing but one clear error may come of loading them.

    python benchmarks/fuzz_files.py --each 25000

Flows and imputers (directories and zip archives) and checkpoints are changed byte by byte, field
by field and tensor by tensor (`tests/spoilt_files.py`), most of them hashed again, so that the
checks behind the hashes are met; tables (`tests/spoilt_tables.py`) byte by byte, most of them
packed again. A load may end well or in a `FileError`; reading, filling and writing a table may end
well or in a message that names it. Neither may raise anything else, take over ten seconds, import,
run, connect or write anything, or ask for more memory than it is given. Parts run in processes of
their own, so that one that dies is seen. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PART = 5000
# What a process may take beside what it has when it begins.
ROOM = 2**29


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--each", type=int, default=25_000, help="files of each of the eight kinds (%(default)s)")
    add("--first", type=int, default=0, help="number of the first: another is another campaign")
    add("--folder", default="/dev/shm", help="where to write them (%(default)s)")
    add("--part", type=int, nargs=2, metavar=("FIRST", "LAST"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        first, last = asked.part
        print(json.dumps(part(first, last, asked.folder)))
        return 0
    return whole(asked)


def part(first: int, last: int, folder: str) -> dict:
    """Judge the cases of these numbers, of every kind, with little memory."""
    import torch

    import spoilt_tables
    from fuzzing import campaign, table_campaign
    from spoilt_files import KINDS, Case, whole_files

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        files = whole_files(Path(place))
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cases = (Case(kind, number) for kind in KINDS for number in range(first, last))
        found = campaign(cases, files, Path(place))
        cases = (
            Case(kind, number) for kind in spoilt_tables.KINDS for number in range(first, last)
        )
        tables = table_campaign(cases, Path(place))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "counts": found.counts | tables.counts,
        "wrong": [(*case, *told[:2]) for case, told in found.wrong + tables.wrong],
        "slowest": max(found.slowest, tables.slowest),
        "peak_mb": peak / 1024,
    }


def whole(asked: argparse.Namespace) -> int:
    """Run the parts, one after the other, and tell what they found."""
    began, counts, wrong = time.perf_counter(), {}, []
    # Arrow's own allocators set a gigabyte aside, more than a process may take.
    machine = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    slowest, peak = 0.0, 0.0
    for first in range(asked.first, asked.first + asked.each, PART):
        last = min(first + PART, asked.first + asked.each)
        argv = [sys.executable, __file__, "--folder", asked.folder, "--part", str(first), str(last)]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False, env=machine)
        if ran.returncode:
            wrong.append(
                (first, last, f"the process ended with {ran.returncode}", ran.stderr[-2000:])
            )
            continue
        found = json.loads(ran.stdout)
        for kind, own in found["counts"].items():
            counts[kind] = counts.get(kind, Counter()) + Counter(own)
        wrong += found["wrong"]
        slowest, peak = max(slowest, found["slowest"]), max(peak, found["peak_mb"])
    total = sum(sum(own.values()) for own in counts.values())
    for kind, own in counts.items():
        print(f"{kind:12} {sum(own.values()):7,}  {dict(own)}")
    print(f"{total:,} files in {time.perf_counter() - began:.0f} s; slowest load {slowest:.3f} s;")
    print(f"largest growth of a process {peak:.0f} MB. Wrong: {len(wrong)}")
    for own in wrong[:20]:
        print(own)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
