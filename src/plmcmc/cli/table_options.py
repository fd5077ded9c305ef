"""The options of `plmcmc impute`, `plmcmc fit` and `plmcmc info`, and what they say of themselves.

Nothing heavy is imported here: help must answer at once.
"""

from __future__ import annotations

import argparse

from plmcmc.cli.parser import Commands, added

EFFORTS = ("fast", "default", "thorough")


def add_impute(commands: Commands) -> None:
    """Add `plmcmc impute`."""
    impute = added(
        commands,
        "impute",
        "fill the holes of tables in CSV, TSV, Parquet or Excel files",
        "Fill the holes of tables: by a model saved before, or by one that is fitted to all of "
        "DATA first. What is there stays as it is, to the character. Identifiers, dates, free "
        "text and excluded columns pass through untouched; --types says otherwise.",
        "plmcmc impute survey.csv -o filled.csv --report report.html",
        "plmcmc impute survey.csv -o drawn.csv --draws 20",
        "plmcmc impute new.parquet -o filled.parquet --model model",
        "plmcmc impute big/*.parquet -o filled/ --model model --engine ray --num-workers 8",
    )
    _add_data(impute)
    _add_output(impute, "OUT", "the file to write; of several DATA, a directory")
    _add_filling(impute)
    _add_fitting(impute, "0, or the model's")
    _add_engines(impute)
    impute.set_defaults(command=_run_impute)


def add_fit(commands: Commands) -> None:
    """Add `plmcmc fit`."""
    fit = added(
        commands,
        "fit",
        "learn from tables, and save the model for plmcmc impute --model",
        "Learn from tables with holes, and save the model: plmcmc impute --model then fills other "
        "rows of the same columns without learning again.",
        "plmcmc fit survey.csv -o model",
        "plmcmc fit big/*.parquet -o model --rows 100000",
    )
    _add_data(fit)
    _add_output(fit, "MODEL", "the directory to write, or one file if it ends in .zip")
    _add_fitting(fit, "0")
    fit.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="learn from N rows of CSV, TSV or Parquet files, chosen at random by the seed "
        "(default: all; of files that would not fit into memory, 200000)",
    )
    fit.set_defaults(command=_run_fit)


def add_info(commands: Commands) -> None:
    """Add `plmcmc info`."""
    info = commands.add_parser(
        "info",
        help="show what a saved model holds",
        description="Show what a saved model holds: its columns, their kinds and values, and how "
        "it was fitted.",
    )
    info.add_argument("model", metavar="MODEL", help="what plmcmc fit wrote")
    info.set_defaults(command=_run_info)


def _add_data(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "data",
        nargs="+",
        metavar="DATA",
        help="tables of the same columns: .csv, .tsv (both may be .gz), .parquet or .xlsx",
    )


def _add_output(command: argparse.ArgumentParser, name: str, words: str) -> None:
    command.add_argument("-o", "--output", required=True, metavar=name, help=words)


def _add_filling(command: argparse.ArgumentParser) -> None:
    """Add what is said of filling."""
    add = command.add_argument
    add(
        "--model",
        help="fill by this model, as plmcmc fit wrote it; without it one is fitted to DATA",
    )
    add(
        "--statistic",
        choices=("mean", "median", "draw"),
        help="what to fill in: the mean or the median of what each hole might be (of words, the "
        "most frequent), or one draw at random (default: mean, or the model's)",
    )
    add(
        "--draws",
        type=int,
        metavar="N",
        help="write N tables instead, each filled at random, for multiple imputation: OUT-1.csv, "
        "OUT-2.csv, ...",
    )
    add(
        "--report",
        metavar="HTML",
        help="also write one page that shows what was missing, what was filled in, how sure that "
        "is, and what to beware of; takes a while longer",
    )
    add(
        "--flag",
        metavar="NAME",
        help="add a last column of this name: true where all that was filled into the row has "
        "converged or nothing was missing, else false",
    )


def _add_fitting(command: argparse.ArgumentParser, seed: str) -> None:
    """Add what is said of tables and of fitting."""
    add = command.add_argument
    add(
        "--seed",
        type=int,
        metavar="S",
        help=f"random seed: the same seed gives the same output (default: {seed})",
    )
    add(
        "--effort",
        choices=EFFORTS,
        help="how much work to put in: fast takes half the time of default or less; thorough "
        "trains twice as many flows, each twice as deep, and runs longer chains, for what matters "
        "or does not converge (default: default)",
    )
    add("--device", default="cpu", help="where to work, such as cuda (default: cpu)")
    add(
        "--na-values",
        nargs="+",
        default=[],
        metavar="WORD",
        help="words that mark a hole, beside an empty cell, NA, N/A, NaN, nan, null, None and ?",
    )
    add(
        "--types",
        metavar="FILE",
        help='a JSON file that says what columns are, such as {"age": "integer"}: continuous, '
        "integer, ordinal, boolean or categorical; of others it is guessed",
    )
    add("--exclude", nargs="+", default=[], metavar="COLUMN", help="columns to leave alone")
    add(
        "--overwrite",
        action="store_true",
        help="replace an output that is there, and throw away another job that was stopped",
    )


def _add_engines(command: argparse.ArgumentParser) -> None:
    """Add who does the work, of Parquet files that are filled part by part."""
    add = command.add_argument
    add(
        "--engine",
        choices=("stream", "ray"),
        help="who fills Parquet files by a --model, part by part, in bounded memory: stream, this "
        "process (the default for them), or Ray's workers (pip install 'plmcmc[ray]'); the output "
        "is the same",
    )
    add("--address", help="of a Ray cluster, such as auto (default: Ray is started here)")
    add(
        "--num-workers",
        type=int,
        metavar="N",
        help="how many Ray workers (default: one for each core, or for each share of a GPU)",
    )
    add(
        "--gpus-per-worker",
        type=float,
        metavar="G",
        help="GPUs of each Ray worker, such as 1 or 0.5 (default: none)",
    )


def _run_impute(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.impute import impute

    return impute(arguments)


def _run_fit(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.fit import fit

    fit(arguments)
    return 0


def _run_info(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.info import info

    info(arguments.model)
    return 0
