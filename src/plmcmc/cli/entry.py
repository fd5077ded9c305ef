"""The command `plmcmc`: what it takes, and the exit code that it ends with.

Nothing heavy is imported here: `plmcmc --help` must answer at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from os import environ

from plmcmc import __version__
from plmcmc.cli.calibrate import add_calibrate
from plmcmc.cli.doctor import add_doctor
from plmcmc.cli.flow_options import add_fit_flow
from plmcmc.cli.parser import Commands
from plmcmc.cli.printable import printable
from plmcmc.cli.reproduce_options import add_reproduce
from plmcmc.cli.table_options import add_fit, add_impute, add_info
from plmcmc.disk import in_words

USAGE_ERROR = 2
# Arguments that name places, and what a person calls them.
PLACES = {
    "data": "DATA",
    "output": "-o",
    "model": "--model",
    "report": "--report",
    "types": "--types",
    "test": "--test",
    "samples": "--samples",
    "picture": "--picture",
}
# Seconds until torchrun has noticed that the leader ended, and has ended the others.
PATIENCE = 3.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for input it cannot work with.

    1 is for what is found wanting: a sampler that is not exact, a memory that is too small.
    130 is for Ctrl-C, as shells have it.
    """
    arguments = _parser().parse_args(argv)
    try:
        _check_paths(arguments)
        return arguments.command(arguments)
    except (ValueError, OSError) as error:
        _complain(_said(error))
        return USAGE_ERROR
    except (MemoryError, RuntimeError) as error:
        less = ", --effort fast," if hasattr(arguments, "effort") else ""
        _complain(_short_of_memory(error, less))
        return 1
    except KeyboardInterrupt as error:
        _complain(str(error) or "interrupted")
        return 130


def _check_paths(arguments: argparse.Namespace) -> None:
    """Refuse names that are empty, which would be taken for none, and such as no file has."""
    for name, words in PLACES.items():
        given = getattr(arguments, name, None)
        for own in given if isinstance(given, list) else [given]:
            if own == "":
                raise ValueError(
                    f"{words}: expected the name of a file or directory; got an empty string. "
                    "Give a name, or leave it out"
                )
            if own is not None and "\0" in own:
                raise ValueError(
                    f"{words} {own!r}: expected a valid file name; this one contains a zero byte. "
                    "Correct it"
                )


def _complain(words: str) -> None:
    """Print what went wrong, where errors go.

    Of processes that torchrun started the leader speaks, and torchrun ends the others. One that is
    still there after a while met something that the leader did not, and says so itself.
    """
    rank = environ.get("RANK", "0") if "TORCHELASTIC_RUN_ID" in environ else "0"
    if rank != "0":
        time.sleep(PATIENCE)
        words = f"process {rank}: {words}"
    print(f"plmcmc: {printable(words)}", file=sys.stderr)


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
    add_calibrate(commands)
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
