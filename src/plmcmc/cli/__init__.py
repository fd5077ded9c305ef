"""In: argv and files. Out: files, and what a person wants to read.

Nothing heavy is imported here: `plmcmc --help` must answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from plmcmc import __version__

USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for input it cannot work with."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except (ValueError, OSError) as error:
        print(f"plmcmc: {error}", file=sys.stderr)
        return USAGE_ERROR
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
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="train a small flow on 8x8 digits, hide half of some, draw completions",
        description="Train a small flow on scikit-learn's 8x8 digits, hide half of each of some "
        "digits it has not seen, draw completions, and write a picture. No download; about a "
        "minute on two cores.",
    )
    demo.add_argument(
        "-o", "--output", default="plmcmc-demo", metavar="DIR", help="where to write (%(default)s)"
    )
    demo.add_argument("--seed", type=int, default=0, help="random seed (%(default)s)")
    demo.set_defaults(command=_run_demo)


def _run_demo(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.demo import demo

    demo(arguments.output, arguments.seed)
    return 0
