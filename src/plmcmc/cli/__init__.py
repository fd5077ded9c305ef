"""In: argv and files. Out: files, and what a person wants to read.

Nothing heavy is imported here: `plmcmc --help` must answer at once.
"""

from plmcmc.cli.entry import main

__all__ = ["main"]
