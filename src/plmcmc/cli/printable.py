"""Text of strangers on a terminal: names of columns and levels may hold codes that command it."""

from __future__ import annotations

import re

# Control characters but tabs and line ends, and halves of characters, which cannot be printed.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return text with control characters spelled out, such as `\x1b`."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
