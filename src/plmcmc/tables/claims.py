"""Files that a job begins to put in their places: noted before, so that a rerun knows its own.

A line for each place, with a hash of what it will hold where that is known: what somebody else puts
there between two runs is known by that.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from plmcmc.disk import append, hash_of

# Places, and hashes of what they will hold; None, if it is not known.
Places = Mapping[Path, str | None]


def note(path: Path, places: Mapping[Path, bytes] | Iterable[Path]) -> None:
    """Note places in a file at `path`, with what each will hold, if it is known."""
    hashes = {
        place: hashlib.sha256(places[place]).hexdigest() if isinstance(places, Mapping) else None
        for place in places
    }
    # Each begins a line of its own: one that was cut short ends there.
    lines = "".join(f"\n{json.dumps([os.path.abspath(p), h])}" for p, h in hashes.items())
    append(path, lines.encode())


def noted(path: Path) -> Places:
    """Return the places noted in a file; none, if it cannot be read."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines:
        with suppress(ValueError, TypeError):
            place, own = json.loads(line)
            found[Path(place)] = own
    return found


def is_ours(place: Path, ours: Places) -> bool:
    """Whether what stands in a place is what a stopped job had begun to put there."""
    own = Path(os.path.abspath(place))
    if own not in ours:
        return False
    return ours[own] is None or (place.is_file() and hash_of(place) == ours[own])
