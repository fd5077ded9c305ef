"""What a command was asked for: its options and where to write, checked before any work."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plmcmc import __version__
from plmcmc.cli.tables import form_of, suffix_of
from plmcmc.disk import check_directory, standing
from plmcmc.flows.stored import free_place
from plmcmc.imputation.device import device_of

SEED = 0
EFFORT = "default"
STATISTIC = "mean"


def check_options(arguments: Namespace) -> None:
    """Refuse options that would have no effect."""
    if arguments.draws is not None and arguments.draws < 1:
        raise ValueError(f"--draws must be at least 1; got {arguments.draws}")
    if arguments.draws and arguments.statistic not in (None, "draw"):
        raise ValueError(
            f"--draws writes draws, and --statistic {arguments.statistic} asks for one table: "
            f"leave out one of them"
        )
    check_seed(arguments.seed)
    check_device(arguments.device)
    if arguments.report and Path(arguments.report).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report {arguments.report}: expected a name that ends in .html")
    if arguments.flag is not None:
        _check_flag(arguments)
    for option in ("effort", "types", "exclude"):
        if arguments.model and getattr(arguments, option):
            raise ValueError(
                f"--{option} belongs to fitting, and --model is fitted already: leave it out"
            )


def check_seed(seed: int | None) -> None:
    """Refuse a seed that is none."""
    if seed is not None and seed < 0:
        raise ValueError(f"--seed must not be negative; got {seed}")


def check_device(name: str) -> None:
    """Refuse a device that is not there."""
    try:
        device_of(name)
    except ValueError as problem:
        raise ValueError(f"--{problem}") from None


def _check_flag(arguments: Namespace) -> None:
    if not arguments.flag.strip():
        raise ValueError("--flag needs a name for the column it adds; got none")
    if arguments.draws or arguments.statistic == "draw":
        asked = "--draws" if arguments.draws else "--statistic draw"
        raise ValueError(
            f"--flag is told by chains that run on, and {asked} takes one state of each: leave out "
            f"--flag, or ask for --statistic mean or median"
        )


def identity_of(command: str, arguments: Namespace) -> dict[str, Any]:
    """Return what makes a job this job: all that its output depends on."""
    of = vars(arguments)
    model = of.get("model")
    found = {
        "command": command,
        "plmcmc": __version__,
        "data": [[Path(name).name, _hash(Path(name))] for name in arguments.data],
        "na-values": sorted(set(arguments.na_values)),
        "seed": arguments.seed,
        "device": arguments.device,
    }
    if model:
        files = sorted(Path(model).iterdir()) if Path(model).is_dir() else [Path(model)]
        found["model"] = [_hash(path) for path in files if path.is_file()]
    else:
        found |= {
            "seed": SEED if arguments.seed is None else arguments.seed,
            "effort": arguments.effort or EFFORT,
            "types": arguments.types and _hash(Path(arguments.types)),
            "exclude": sorted(set(arguments.exclude)),
        }
    if command == "impute":
        statistic = of["statistic"] or (None if model else STATISTIC)
        found |= {"draws": of["draws"], "statistic": statistic, "flag": of["flag"]}
    return found


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def places_of(paths: Sequence[Path], output: Path, draws: int | None) -> list[list[Path]]:
    """Return the files to write for each file that is read."""
    if len(paths) == 1:
        if output.is_dir():
            raise ValueError(
                f"{output} is a directory: expected a file for the one table. Name one"
            )
        if form_of(output) != form_of(paths[0]):
            raise ValueError(
                f"{output}: expected a {form_of(paths[0])} file, as {paths[0]} is. Choose that "
                f"suffix"
            )
        return [_numbered(output, draws)]
    names = [path.name for path in paths]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two files would be written to {output / twice[0]}: rename one")
    return [_numbered(output / name, draws) for name in names]


def _numbered(place: Path, draws: int | None) -> list[Path]:
    suffix = suffix_of(place)
    if draws is None:
        return [place]
    stem = place.name.removesuffix(suffix)
    return [place.with_name(f"{stem}-{draw}{suffix}") for draw in range(1, draws + 1)]


def check_free(places: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse before the work what could not be written after it."""
    for place in places:
        if place.exists() and not overwrite:
            raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
        if place.is_dir():
            raise ValueError(f"{place} is a directory: expected a file. Name one")
    for directory in {place.parent for place in places}:
        check_directory(directory)


def leftovers(paths: Sequence[Path], output: Path, draws: int | None) -> list[Path]:
    """Return tables with higher numbers, of a job with more draws, that stand beside the new."""
    if draws is None:
        return []
    found = []
    for own in places_of(paths, output, 1):
        stem, suffix = own[0].name.removesuffix(f"-1{suffix_of(own[0])}"), suffix_of(own[0])
        number = draws + 1
        while (other := own[0].with_name(f"{stem}-{number}{suffix}")).exists():
            found.append(other)
            number += 1
    return found


def check_model_place(place: Path, kind: str, *, overwrite: bool) -> None:
    """Refuse before the work a place where a model could not be saved after it."""
    if standing(place).exists() and not overwrite:
        raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
    free_place(place, kind, overwrite=overwrite)
