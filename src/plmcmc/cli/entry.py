"""The command `plmcmc`: what it takes, and the exit code that it ends with.

Nothing heavy is imported here: `plmcmc --help` must answer at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from plmcmc import __version__
from plmcmc.cli.complain import complain
from plmcmc.cli.doctor import add_doctor
from plmcmc.cli.flow_options import add_fit_flow
from plmcmc.cli.parser import Commands
from plmcmc.cli.paths import check_paths
from plmcmc.cli.reproduce_options import add_reproduce
from plmcmc.cli.table_options import add_fit, add_impute, add_info
from plmcmc.disk import in_words

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for input it cannot work with.

    1 is for what is found wanting: a sampler that is not exact, a memory that is too small.
    130 is for Ctrl-C, as shells have it.
    """
    arguments = _parser().parse_args(argv)
    try:
        check_paths(arguments)
        return arguments.command(arguments)
    except (ValueError, OSError) as error:
        complain(_said(error))
        return USAGE_ERROR
    except (MemoryError, RuntimeError) as error:
        less = ", --effort fast," if hasattr(arguments, "effort") else ""
        complain(_short_of_memory(error, less))
        return 1
    except KeyboardInterrupt as error:
        complain(str(error) or "interrupted")
        return 130


def _said(error: ValueError | OSError) -> str:
    """Return what is wrong, in words; the system's own errors are numbers and a few words."""
    if isinstance(error, OSError) and error.errno is not None:
        return in_words(error, error.filename or "a file", reading=True)
    return str(error)


def _short_of_memory(error: MemoryError | RuntimeError, less: str) -> str:
    """Return what to do about too little memory; other errors are raised again.

    Args:
        error: what was raised.
        less: an option of this command that asks for less, if it has one.
    """
    from plmcmc.posterior.memory import memory_ran_out

    said = memory_ran_out(error)
    if said is None:
        raise error
    if said.startswith("not enough memory"):
        return str(error)
    return (
        f"ran out of memory ({said}). Use fewer rows or columns{less} or a machine with more memory"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plmcmc",
        description="Fill missing values in tables, and draw exact conditional samples from "
        "normalizing flows.",
        epilog="As a library: draws = plmcmc.condition(flow, x).sample(). See the README.",
    )
    parser.add_argument("--version", action="version", version=f"plmcmc {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_calibrate(commands)
    add_impute(commands)
    add_fit(commands)
    add_info(commands)
    add_fit_flow(commands)
    add_reproduce(commands)
    add_doctor(commands)
    return parser


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="fill a table and complete digit images on bundled data; compare with other methods",
        description="Hide half of a table (scikit-learn's breast cancer data, ten columns), fill "
        "it, and compare with the truth and with other methods. Then train a small flow on 8x8 "
        "digits, hide half of some unseen digits, and draw completions. Writes tables, models, "
        "pictures and a report. No download; takes one to two minutes on two cores.",
    )
    demo.add_argument(
        "-o",
        "--output",
        default="plmcmc-demo",
        metavar="DIR",
        help="directory to write to (default: %(default)s)",
    )
    demo.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    demo.set_defaults(command=_run_demo)


def _run_demo(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.demo import demo
    from plmcmc.threads import one_thread

    with one_thread():
        demo(arguments.output, arguments.seed)
    return 0


def _add_calibrate(commands: Commands) -> None:
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
    calibrate.set_defaults(command=_run_calibrate)


def _run_calibrate(arguments: argparse.Namespace) -> int:
    from pathlib import Path

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
