"""A command of the command line, with what its help says after the options.

Nothing heavy is imported here: help must answer at once.
"""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
AFTER = """\
{examples}

exit codes:
  0    done
  1    {wrong}
  2    invalid input; a message says where and why
  130  stopped by Ctrl-C; run the same command again to resume
"""
# What exit code 1 means, where a command does not say otherwise.
WRONG = "out of memory; or some of several Parquet files could not be filled"


def added(
    commands: Commands,
    name: str,
    words: str,
    description: str,
    *examples: str,
    wrong: str = WRONG,
) -> argparse.ArgumentParser:
    """Add a command with examples and exit codes in its help."""
    shown = "\n".join(["examples:", *(f"  {example}" for example in examples)])
    return commands.add_parser(
        name,
        help=words,
        description=fill(description, 79),
        epilog=AFTER.format(examples=shown, wrong=wrong),
        # Lines of the epilog stay lines.
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
