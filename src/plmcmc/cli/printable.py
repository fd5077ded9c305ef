"""Text of strangers on a terminal or a page: names may hold codes that command it, or forge lines.

What is told in words may have lines; a name or a level is a part of a line, and has none.
"""

from __future__ import annotations

import re

# Control characters but tabs and line ends, halves of characters, which cannot be printed, and
# marks that turn the direction of what follows, so that it reads as something else.
_COMMANDS = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069"
_IN_WORDS = re.compile(f"[{_COMMANDS}]")
_IN_NAMES = re.compile(f"[{_COMMANDS}\t\n\u2028\u2029]")
# A name of which there is more is cut.
LONGEST = 100


def printable(text: str) -> str:
    r"""Return words with control characters spelled out, such as `\x1b`."""
    return _IN_WORDS.sub(_spelled, text)


def one_line(text: str) -> str:
    r"""Return text with ends of lines and tabs spelled out, too, such as `\n`."""
    return _IN_NAMES.sub(_spelled, text)


def named(name: object) -> str:
    """Return a name of a stranger's, or a level: on one line, and cut where it is long."""
    text = str(name)
    more = f"... ({len(text):,} characters)" if len(text) > LONGEST else ""
    return one_line(text[:LONGEST]) + more


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
