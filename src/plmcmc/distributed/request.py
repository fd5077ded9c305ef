"""What is asked of `plmcmc.distributed.impute`, checked before any work."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from operator import index
from pathlib import Path

from plmcmc.imputation import FlowImputer
from plmcmc.imputation.convergence import LEAST_STATES
from plmcmc.imputation.device import device_of
from plmcmc.imputation.drawing import check_statistic
from plmcmc.tables import check_no_directory, form_of
from plmcmc.tables.places import check_length

ENGINES = ("stream", "ray")


def paths_of(data: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files to fill; one alone need not stand in a list."""
    if isinstance(data, str | Path) or not isinstance(data, Iterable):
        return [path_of("data", data)]
    return [path_of("data", path) for path in data]


def path_of(name: str, value: str | Path) -> Path:
    """Return a path; refuse what is none, and an empty one, which would be this directory."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(
            f"{name}: expected the name of a file or directory; got {value!r}. Give a name"
        )
    return Path(value)


def is_directory(output: str | Path, files: int) -> bool:
    """Whether an output for so many files is a directory, there or not: as it was typed, too."""
    ends = ("/", os.sep, os.altsep or os.sep)
    place = path_of("output", output)
    check_length(place)
    return files > 1 or place.is_dir() or not place.suffix or str(output).endswith(ends)


def words_of(na_values: Sequence[str]) -> tuple[str, ...]:
    """Return words that mark a hole, each once.

    Raises:
        ValueError: if they are no words. One word alone would be taken for its letters.
    """
    alone = isinstance(na_values, str) or not isinstance(na_values, Iterable)
    words = [str(na_values)] if alone else list(na_values)
    if alone or not all(isinstance(word, str) for word in words):
        raise ValueError(
            f"na_values: expected a list of words, such as {[str(word) for word in words]}; got "
            f"{na_values!r}. Write numbers as strings, too"
        )
    return tuple(sorted(set(words)))


def whole_number(name: str, value: int | None, least: int) -> int | None:
    """Return a number that was given, or None; refuse what is not whole, or less than `least`."""
    if value is None:
        return None
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(
            f"{name}: expected a whole number, at least {least}; got {value!r}. Correct it, or "
            f"leave it out"
        )
    return number


def check_asked(
    paths: Sequence[Path],
    engine: str,
    address: str | None,
    workers: int | None,
    gpus: float,
    draws: int | None,
    statistic: str | None,
    device: str,
) -> None:
    """Refuse what cannot be, and what would have no effect."""
    if not paths:
        raise ValueError("expected files to fill; got none. Name at least one")
    for path in paths:
        check_no_directory(path)
    other = [path for path in paths if form_of(path) != ".parquet"]
    if other:
        raise ValueError(
            f"{other[0]}: expected Parquet files, which can be read part by part. Convert it, or "
            f"fill it whole: plmcmc impute without --engine, or FlowImputer"
        )
    if engine not in ENGINES:
        raise ValueError(f"expected the engine to be one of {', '.join(ENGINES)}; got {engine!r}")
    given = {"address": address, "workers": workers, "gpus_per_worker": gpus or None}
    useless = [name for name, value in given.items() if value is not None]
    if engine == "stream" and useless:
        raise ValueError(
            f"{', '.join(useless)}: only used by the engine ray, but the engine is stream, which "
            "runs in this process. Leave out one of them"
        )
    _check_share(gpus)
    if address is not None and not (isinstance(address, str) and address.strip()):
        raise ValueError(
            f"address: expected the address of a Ray cluster, such as auto; got {address!r}. "
            "Correct it, or leave it out to start Ray on this machine"
        )
    if engine == "ray" and device != "cpu":
        raise ValueError(
            f"device {device}: not used by the engine ray. Leave it out, and set the number of "
            "GPUs per worker instead"
        )
    device_of(device)
    if statistic is not None:
        check_statistic(statistic)
    if draws and statistic not in (None, "draw"):
        raise ValueError(
            f"draws={draws} writes several tables of draws, but statistic={statistic!r} asks for "
            "one table: leave out one of them"
        )


def check_apart(output: Path, model: Path) -> None:
    """Refuse to write into the model: it would be another one, or none, after that."""
    place, kept = output.resolve(), model.resolve()
    if place == kept or kept in place.parents:
        raise ValueError(f"{output}: expected a place outside of the model {model}. Choose another")


def _check_share(gpus: float) -> None:
    """Refuse GPUs that Ray could not give to a worker: parts of one, or whole ones."""
    number = isinstance(gpus, int | float) and math.isfinite(gpus)
    if not (number and gpus >= 0 and (gpus <= 1 or float(gpus).is_integer())):
        raise ValueError(
            f"expected the GPUs per worker to be 0 or more, and whole above 1; got {gpus}. "
            "Correct it"
        )


def check_flag(imputer: FlowImputer, flag: str | None, draws: int | None) -> None:
    """Refuse to add a column that could not be told."""
    if flag is None:
        return
    if not (isinstance(flag, str) and flag.strip()):
        raise ValueError(f"flag: expected a name for the column to add; got {flag!r}. Give a name")
    if imputer.effort_.states < LEAST_STATES:
        raise ValueError(
            f"flag {flag!r} marks rows that have converged, but the model's effort runs too few "
            f"steps to check convergence: expected at least {LEAST_STATES} states. Choose the "
            "effort default or thorough when fitting"
        )
    if draws or imputer.statistic == "draw":
        raise ValueError(
            f"flag {flag!r} needs full-length chains, but draws keep a single state of each: use "
            "the statistic mean or median, or leave the flag out"
        )
