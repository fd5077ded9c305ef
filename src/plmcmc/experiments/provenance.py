"""Where numbers are from: the versions, the device and the day that a part was made with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module

import torch

from plmcmc.experiments.markdown import first_few, table

COLUMNS = ("plmcmc", "torch", "device", "date")
UNKNOWN = "not noted"
# Parts that a line names.
NAMED = 3


def made_on(device: str) -> dict[str, str]:
    """Return what a part that ends now is made with; the day is UTC's."""
    where = torch.device(device)
    name = torch.cuda.get_device_name(where) if where.type == "cuda" else where.type
    # The front door leads to rooms that this one may not import; all it is asked for is its number.
    version = import_module("plmcmc").__version__
    day = datetime.now(UTC).date().isoformat()
    return dict(zip(COLUMNS, (version, str(torch.__version__), name, day), strict=True))


def where_from(made: Mapping[str, Mapping[str, str]]) -> str:
    """Return a table with a line for all parts that were made alike.

    Args:
        made: of every part, by its name; nothing of those that an earlier version kept.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for part, own in made.items():
        groups.setdefault(tuple(str(own.get(key, UNKNOWN)) for key in COLUMNS), []).append(part)
    rows = ((f"{len(parts)}: {first_few(parts, NAMED)}", key) for key, parts in groups.items())
    return table("parts", COLUMNS, rows)
