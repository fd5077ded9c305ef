"""Names of files and directories that a person typed: whether they can be any.

Nothing heavy is imported here: every command begins with it.
"""

from __future__ import annotations

from argparse import Namespace

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


def check_paths(arguments: Namespace) -> None:
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
