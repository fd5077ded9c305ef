"""`plmcmc calibrate`: is a sampler exact on a saved flow?

Nothing heavy is imported until it is called: help must answer at once.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from plmcmc.cli.parser import Commands


def add_calibrate(commands: Commands) -> None:
    """Add `plmcmc calibrate`."""
    calibrate = commands.add_parser(
        "calibrate",
        help="test that a sampler draws exactly from a flow's conditional distributions",
        description="Draw rows from a saved flow, hide part of each row, sample the hidden part, "
        "and test that the ranks of the true values among the draws are uniform. Exit code 1 if "
        "they are not.",
    )
    calibrate.add_argument("flow", metavar="FLOW", help="a flow saved by plmcmc.save")
    add = calibrate.add_argument
    add(
        "--rate", type=float, default=0.5, help="fraction of entries to hide (default: %(default)s)"
    )
    add(
        "--rows",
        type=int,
        default=256,
        help="number of rows to draw from the flow (default: %(default)s)",
    )
    add(
        "--draws",
        type=int,
        default=63,
        help="number of draws to rank each true value among (default: %(default)s)",
    )
    add("--thin", type=int, default=5, help="steps between two kept draws (default: %(default)s)")
    add("--method", default="auto", help="the sampler to test (default: %(default)s)")
    add("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    add("--picture", metavar="PNG", help="write histograms of the ranks to this file")
    calibrate.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from plmcmc.data import Independent
    from plmcmc.diagnostics import calibrate
    from plmcmc.disk import check_directory
    from plmcmc.flows import load

    if arguments.picture:
        # Better to know before the work.
        check_directory(Path(arguments.picture).parent)
        Path(arguments.picture).parent.mkdir(parents=True, exist_ok=True)
    found = calibrate(
        load(arguments.flow),
        Independent(arguments.rate),
        arguments.rows,
        arguments.draws,
        arguments.method,
        arguments.seed,
        thin=arguments.thin,
    )
    print(found)
    if arguments.picture:
        found.plot(arguments.picture)
    return 0 if found.passed else 1
