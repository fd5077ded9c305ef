"""In: argv and files. Out: files, and what a person wants to read.

Nothing heavy is imported here: `plmcmc --help` must answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from plmcmc import __version__

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for input it cannot work with.

    1 is for what is found wanting: a sampler that is not calibrated, a memory that is too small.
    """
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except (ValueError, OSError) as error:
        print(f"plmcmc: {error}", file=sys.stderr)
        return USAGE_ERROR
    except MemoryError as error:
        print(f"plmcmc: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("plmcmc: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plmcmc",
        description="Exact conditional sampling from normalizing flows.",
        epilog="As a library: draws = plmcmc.condition(flow, x).sample(). See the README.",
    )
    parser.add_argument("--version", action="version", version=f"plmcmc {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_calibrate(commands)
    _add_impute(commands)
    _add_fit(commands)
    _add_info(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="fill a table beside other methods, then complete digits, on data that comes along",
        description="Hide half of a table (scikit-learn's breast cancer, ten columns), fill it, "
        "and compare with the truth and with other methods. Then train a small flow on 8x8 digits, "
        "hide half of each of some it has not seen, and draw completions. Writes tables, models "
        "and pictures. No download; one to two minutes on two cores.",
    )
    demo.add_argument(
        "-o", "--output", default="plmcmc-demo", metavar="DIR", help="where to write (%(default)s)"
    )
    demo.add_argument("--seed", type=int, default=0, help="random seed (%(default)s)")
    demo.set_defaults(command=_run_demo)


def _run_demo(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.demo import demo

    with _one_thread():
        demo(arguments.output, arguments.seed)
    return 0


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small batches run no faster on more threads, and far slower where cores are shared."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    calibrate = commands.add_parser(
        "calibrate",
        help="test that a sampler draws from a flow's own conditionals",
        description="Draw rows from a saved flow, hide part of each, sample it, and test that the "
        "truth's ranks among the draws are uniform. Exit code 1 if they are not.",
    )
    calibrate.add_argument("flow", metavar="FLOW_DIR", help="a directory written by plmcmc.save")
    add = calibrate.add_argument
    add("--rate", type=float, default=0.5, help="share of entries to hide (%(default)s)")
    add("--rows", type=int, default=256, help="rows to draw from the flow (%(default)s)")
    add("--draws", type=int, default=63, help="draws to rank among (%(default)s)")
    add("--thin", type=int, default=5, help="steps between two draws (%(default)s)")
    add("--method", default="auto", help="the sampler to judge (%(default)s)")
    add("--seed", type=int, default=0, help="random seed (%(default)s)")
    add("--picture", metavar="PNG", help="write histograms of the ranks here")
    calibrate.set_defaults(command=_run_calibrate)


def _run_calibrate(arguments: argparse.Namespace) -> int:
    from plmcmc.data import Independent
    from plmcmc.diagnostics import calibrate
    from plmcmc.flows import load

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


def _add_impute(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    impute = commands.add_parser(
        "impute",
        help="fill the holes of tables in CSV, TSV or Parquet files",
        description="Fill the holes of tables: by a saved model, or by one fitted to all of DATA. "
        "What is there stays as it is, to the character. Identifiers, dates, free text and "
        "excluded columns pass through untouched; --types says otherwise.",
    )
    _add_data(impute)
    add = impute.add_argument
    add("-o", "--output", required=True, metavar="OUT", help="a file; of several DATA, a directory")
    add("--model", help="a directory written by plmcmc fit; its columns are filled, others pass")
    add(
        "--draws",
        type=int,
        metavar="N",
        help="write N tables filled at random, for multiple imputation: OUT-1.csv, OUT-2.csv, ...",
    )
    add(
        "--statistic",
        choices=("mean", "median", "draw"),
        help="what to fill in (mean, or the model's)",
    )
    _add_fitting(impute)
    impute.set_defaults(command=_run_impute)


def _add_fit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    fit = commands.add_parser(
        "fit",
        help="learn from tables, and save the model for plmcmc impute --model",
        description="Learn from tables with holes, and save the model for plmcmc impute --model.",
    )
    _add_data(fit)
    fit.add_argument("-o", "--output", required=True, metavar="MODEL", help="a new directory")
    _add_fitting(fit)
    fit.set_defaults(command=_run_fit)


def _add_info(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    info = commands.add_parser(
        "info", help="show what a saved model holds", description="Show what a saved model holds."
    )
    info.add_argument("model", metavar="MODEL", help="a directory written by plmcmc fit")
    info.set_defaults(command=_run_info)


def _add_data(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "data", nargs="+", metavar="DATA", help=".csv, .tsv (.gz or not) or .parquet"
    )


def _add_fitting(command: argparse.ArgumentParser) -> None:
    """Add what is said of tables and of fitting."""
    add = command.add_argument
    add("--seed", type=int, help="random seed (0, or the model's)")
    add(
        "--effort",
        choices=("fast", "default", "thorough"),
        help="how much work to put in (default)",
    )
    add(
        "--na-values",
        nargs="+",
        default=[],
        metavar="WORD",
        help="words that mark a hole, beside an empty cell, NA, N/A, NaN, nan, null, None and ?",
    )
    add(
        "--types",
        metavar="JSON",
        help='a file with kinds of columns, such as {"age": "integer"}: continuous, integer, '
        "ordinal, boolean or categorical",
    )
    add("--exclude", nargs="+", default=[], metavar="COLUMN", help="columns to leave alone")
    add("--overwrite", action="store_true", help="replace what is there")


def _run_impute(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.impute import impute

    impute(arguments)
    return 0


def _run_fit(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.impute import fit

    fit(arguments)
    return 0


def _run_info(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.impute import info

    info(arguments.model)
    return 0
