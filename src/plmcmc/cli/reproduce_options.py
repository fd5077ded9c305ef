"""The options of `plmcmc reproduce`, and what they say of themselves.

Nothing heavy is imported here: help must answer at once.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from plmcmc.cli.parser import Commands, added
from plmcmc.experiments.catalogue import CATALOGUE, SCALES


def add_reproduce(commands: Commands) -> None:
    """Add `plmcmc reproduce`."""
    command = added(
        commands,
        "reproduce",
        "reproduce an experiment from the paper: its numbers, tables and figures",
        "Run an experiment from the paper, and write its numbers (JSON lines), a table next to "
        "the paper's, and figures. Finished parts are kept: if stopped, run the same command to "
        "resume; once all parts are done, it only writes the report again.",
        "plmcmc reproduce --list",
        "plmcmc reproduce table2 --scale smoke",
        "plmcmc reproduce table2 --scale full --data DIR --device cuda",
        "plmcmc reproduce table2 --scale full --data DIR --only breast",
        wrong="out of memory; finished parts are kept",
    )
    add = command.add_argument
    add(
        "name",
        nargs="?",
        metavar="NAME",
        choices=[*CATALOGUE],
        help="name of the experiment (see --list)",
    )
    add("--list", action="store_true", help="list all experiments, and what data they read")
    add(
        "--scale",
        choices=SCALES,
        default="laptop",
        help="smoke: seconds, on bundled data; laptop: minutes to an hour on two cores; full: the "
        "paper's settings, for a GPU (default: %(default)s)",
    )
    add(
        "--data",
        metavar="DIR",
        help="directory with data sets (uci/*.csv, mnist/*.gz, cifar10/*.npy, faces64/*.zip) and "
        "with flows trained by fit-flow (flows/cifar, flows/faces)",
    )
    add(
        "-o",
        "--output",
        default="plmcmc-reproduce",
        metavar="DIR",
        help="directory for numbers, reports and trained flows (default: %(default)s)",
    )
    add(
        "--only",
        metavar="TEXT",
        help="run only parts whose name contains TEXT, ignoring case; * matches anything: "
        "'breast*PL-MCMC'",
    )
    add("--report-only", action="store_true", help="run nothing; report the parts that are done")
    add("--device", default="cpu", help="device to use, such as cuda (default: %(default)s)")
    command.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        _list()
        return 0
    if arguments.name is None:
        raise ValueError("expected the name of an experiment; `plmcmc reproduce --list` shows them")
    from plmcmc.cli.request import check_device
    from plmcmc.experiments.reproduce import reproduce
    from plmcmc.threads import one_thread

    check_device(arguments.device)
    with one_thread() if arguments.scale == "smoke" else nullcontext():
        report = reproduce(
            arguments.name,
            arguments.scale,
            output=arguments.output,
            data=arguments.data,
            device=arguments.device,
            only=arguments.only,
            report_only=arguments.report_only,
            # Bars on a terminal, and lines in the log of a job.
            progress=True,
        )
    print(f"\n{report}")
    return 0


def _list() -> None:
    wide = max(map(len, CATALOGUE))
    for name, entry in CATALOGUE.items():
        reads = f"; reads {entry.reads}" if entry.reads else ""
        print(f"{name:{wide}}  {entry.summary} (section {entry.section}{reads})")
    print("\n--scale smoke needs no data. For required data and timings see docs/reproduce.md.")
