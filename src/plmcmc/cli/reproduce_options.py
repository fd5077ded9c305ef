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
        "run an experiment of the paper: its numbers, tables and figures",
        "Run an experiment of the paper, and write its numbers (JSON lines), a table beside the "
        "paper's, and figures. Every finished part is kept: stopped, the same command goes on; "
        "run again, it only reports.",
        "plmcmc reproduce --list",
        "plmcmc reproduce table2 --scale smoke",
        "plmcmc reproduce table2 --scale full --data DIR --device cuda",
        "plmcmc reproduce table2 --scale full --data DIR --only breast",
        wrong="too little memory; parts that were done are kept",
    )
    add = command.add_argument
    add("name", nargs="?", metavar="NAME", choices=[*CATALOGUE], help="see --list")
    add("--list", action="store_true", help="name every experiment, and what it reads")
    add(
        "--scale",
        choices=SCALES,
        default="laptop",
        help="smoke: seconds, on data that comes along; laptop: minutes to an hour on two cores; "
        "full: the paper's settings, for a GPU (%(default)s)",
    )
    add(
        "--data",
        metavar="DIR",
        help="directory of data sets: uci/*.csv, mnist/*.gz, cifar10/*.npy, faces64/*.zip; and of "
        "flows that fit-flow trained: flows/cifar, flows/faces",
    )
    add(
        "-o",
        "--output",
        default="plmcmc-reproduce",
        metavar="DIR",
        help="where numbers, reports and trained flows go (%(default)s)",
    )
    add(
        "--only",
        metavar="TEXT",
        help="run only parts whose name has this in it, in capitals or not, * standing for "
        "anything: 'breast*PL-MCMC'",
    )
    add("--report-only", action="store_true", help="run nothing, and report what is there")
    add("--device", default="cpu", help="where to work, such as cuda (%(default)s)")
    command.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        _list()
        return 0
    if arguments.name is None:
        raise ValueError("say which experiment: `plmcmc reproduce --list` names them")
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
    print("\nAt --scale smoke none reads any data. What --data must have, and what has been timed:")
    print("docs/reproduce.md.")
