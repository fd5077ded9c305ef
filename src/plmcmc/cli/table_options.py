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
        "fill missing values in tables in CSV, TSV, Parquet or Excel files",
        "Fill missing values in tables, with a saved model or with one that is first fitted to "
        "all of DATA. Values that are present are kept exactly as written. Identifiers, dates, "
        "free text and excluded columns pass through untouched, unless --types says otherwise.",
        "plmcmc impute survey.csv -o filled.csv --report report.html",
        "plmcmc impute survey.csv -o drawn.csv --draws 20",
        "plmcmc impute new.parquet -o filled.parquet --model model",
        "plmcmc impute big/*.parquet -o filled/ --model model --engine ray --num-workers 8",
    )
    _add_data(impute)
    _add_output(impute, "OUT", "file to write; a directory if there are several DATA files")
    _add_filling(impute)
    _add_fitting(impute, "0, or the model's seed")
    _add_engines(impute)
    impute.set_defaults(command=_run_impute)


def add_fit(commands: Commands) -> None:
    """Add `plmcmc fit`."""
    fit = added(
        commands,
        "fit",
        "learn from tables, and save the model for plmcmc impute --model",
        "Learn from tables with missing values, and save the model: plmcmc impute --model then "
        "fills other rows of the same columns without fitting again.",
        "plmcmc fit survey.csv -o model",
        "plmcmc fit big/*.parquet -o model --rows 100000",
        wrong="out of memory",
    )
    _add_data(fit)
    _add_output(fit, "MODEL", "directory to write, or a single file if the name ends in .zip")
    _add_fitting(fit, "0")
    fit.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="learn from N rows of CSV, TSV or Parquet files, chosen at random by the seed "
        "(default: all rows; 200000 if the files would not fit into memory)",
    )
    fit.set_defaults(command=_run_fit)


def add_info(commands: Commands) -> None:
    """Add `plmcmc info`."""
    info = commands.add_parser(
        "info",
        help="show what a saved model contains",
        description="Show what a saved model contains: its columns, their kinds and values, and "
        "how it was fitted.",
    )
    info.add_argument("model", metavar="MODEL", help="a model saved by plmcmc fit")
    info.set_defaults(command=_run_info)


def _add_data(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "data",
        nargs="+",
        metavar="DATA",
        help="tables with the same columns: .csv, .tsv (either may be gzipped, as .gz), .parquet "
        "or .xlsx",
    )


def _add_output(command: argparse.ArgumentParser, name: str, words: str) -> None:
    command.add_argument("-o", "--output", required=True, metavar=name, help=words)


def _add_filling(command: argparse.ArgumentParser) -> None:
    """Add what is said of filling."""
    add = command.add_argument
    add(
        "--model",
        help="fill with this model, saved by plmcmc fit; without it, a model is fitted to DATA",
    )
    add(
        "--statistic",
        choices=("mean", "median", "draw"),
        help="what to fill in: the mean or median of the possible values (for categories, the most "
        "frequent one), or one random draw (default: mean, or the model's)",
    )
    add(
        "--draws",
        type=int,
        metavar="N",
        help="write N tables instead, each filled with random draws, for multiple imputation: "
        "OUT-1.csv, OUT-2.csv, ...",
    )
    add(
        "--report",
        metavar="HTML",
        help="also write an HTML report: what was missing, what was filled in, how certain it is, "
        "and what to watch out for; takes a little longer",
    )
    add(
        "--flag",
        metavar="NAME",
        help="add a last column with this name: true if all values filled into the row have "
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
        help="how much computation to spend: fast takes at most half the time of default; thorough "
        "trains twice as many flows, each twice as deep, and runs longer chains, for data "
        "that are important or slow to converge (default: default)",
    )
    add("--device", default="cpu", help="device to use, such as cuda (default: cpu)")
    add(
        "--na-values",
        nargs="+",
        default=[],
        metavar="WORD",
        help="words that mark a missing value, in addition to an empty cell, NA, N/A, n/a, #N/A, "
        "<NA>, NaN, nan, NULL, null, None and ?",
    )
    add(
        "--types",
        metavar="FILE",
        help='JSON file with column kinds, such as {"age": "integer"}: continuous, integer, '
        "ordinal, boolean or categorical; columns not listed are detected automatically",
    )
    add("--exclude", nargs="+", default=[], metavar="COLUMN", help="columns to leave unchanged")
    add(
        "--overwrite",
        action="store_true",
        help="replace existing output, and discard the progress of a different, interrupted job",
    )


def _add_engines(command: argparse.ArgumentParser) -> None:
    """Add who does the work, of Parquet files that are filled part by part."""
    add = command.add_argument
    add(
        "--engine",
        choices=("stream", "ray"),
        help="how to process Parquet files with --model: stream (in this process; default) or ray "
        "(on Ray workers; pip install 'plmcmc[ray]'); both fill part by part in bounded "
        "memory, with the same output",
    )
    add(
        "--address",
        help="address of a Ray cluster, such as auto (default: start Ray on this machine)",
    )
    add(
        "--num-workers",
        type=int,
        metavar="N",
        help="number of Ray workers (default: one per core, or one per share of a GPU)",
    )
    add(
        "--gpus-per-worker",
        type=float,
        metavar="G",
        help="GPUs per Ray worker, such as 1 or 0.5 (default: none)",
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
