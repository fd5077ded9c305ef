"""What a command was asked for: its options and where to write, checked before any work."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plmcmc import __version__
from plmcmc.cli.machine import free_memory, gigabytes
from plmcmc.disk import hash_of, hashes_of, standing
from plmcmc.distributed.request import check_apart
from plmcmc.imputation.device import device_of
from plmcmc.storage.stored import free_place

SEED = 0
EFFORT = "default"
STATISTIC = "mean"
# What a completed table takes: beside its cells, and as a multiple of its file's size.
TABLE_BYTES, TIMES = 10_000, 4


def check_options(arguments: Namespace) -> None:
    """Refuse options that would have no effect."""
    if arguments.draws is not None and arguments.draws < 1:
        raise ValueError(f"--draws must be at least 1; got {arguments.draws}")
    if arguments.draws and arguments.statistic not in (None, "draw"):
        raise ValueError(
            f"--draws writes several tables of draws, but --statistic {arguments.statistic} asks "
            "for one table: leave out one of them"
        )
    check_seed(arguments.seed)
    check_device(arguments.device)
    if arguments.report and Path(arguments.report).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report {arguments.report}: expected a file name that ends in .html")
    if arguments.flag is not None:
        _check_flag(arguments)
    for option in ("effort", "types", "exclude"):
        if arguments.model is not None and getattr(arguments, option):
            raise ValueError(
                f"--{option} is for fitting, but the --model is already fitted: leave it out"
            )
    if arguments.model is not None:
        check_apart(Path(arguments.output), Path(arguments.model))
    _check_engine(arguments)


def _check_engine(arguments: Namespace) -> None:
    """Refuse workers that nobody would start."""
    if arguments.engine and arguments.model is None:
        raise ValueError(
            f"--engine {arguments.engine} needs a saved model: pass --model. To fit one, run "
            "plmcmc fit, with --rows if the files are large"
        )
    if arguments.engine and arguments.report:
        raise ValueError(
            "--report needs whole tables, but --engine fills them part by part: leave out one of "
            "them"
        )
    for option in ("address", "num_workers", "gpus_per_worker"):
        if getattr(arguments, option) is not None and arguments.engine != "ray":
            raise ValueError(
                f"--{option.replace('_', '-')} needs --engine ray: add that, or leave it out"
            )


def check_draws(paths: Sequence[Path], draws: int | None) -> None:
    """Refuse more completed tables than there is memory for: all are made before one is written."""
    free = free_memory()
    if draws is None or free is None:
        return
    size = sum(path.stat().st_size for path in paths if path.is_file())
    most = free // (len(paths) * TABLE_BYTES + TIMES * size)
    if draws > most:
        raise ValueError(
            f"--draws {draws}: expected at most {most}, as only {gigabytes(free)} of memory is "
            "free. Use fewer draws"
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
        raise ValueError("--flag needs a name for the column to add; got an empty one")
    if arguments.draws or arguments.statistic == "draw":
        asked = "--draws" if arguments.draws else "--statistic draw"
        raise ValueError(
            f"--flag needs full-length chains, but {asked} keeps a single state of each: leave "
            "out --flag, or use --statistic mean or median"
        )


def identity_of(command: str, arguments: Namespace) -> dict[str, Any]:
    """Return what makes a job this job: all that its output depends on."""
    of = vars(arguments)
    model = of.get("model")
    found = {
        "command": command,
        "plmcmc": __version__,
        "data": [[Path(name).name, hash_of(Path(name))] for name in arguments.data],
        "na-values": sorted(set(arguments.na_values)),
        "seed": arguments.seed,
        "device": arguments.device,
    }
    if model is not None:
        found["model"] = hashes_of(Path(model))
    else:
        found |= {
            "seed": SEED if arguments.seed is None else arguments.seed,
            "effort": arguments.effort or EFFORT,
            "types": arguments.types and hash_of(Path(arguments.types)),
            "exclude": sorted(set(arguments.exclude)),
        }
    if command == "fit":
        found["rows"] = arguments.rows
    if command == "impute":
        statistic = of["statistic"] or (STATISTIC if model is None else None)
        found |= {"draws": of["draws"], "statistic": statistic, "flag": of["flag"]}
    return found


def check_model_place(place: Path, kind: str, *, overwrite: bool) -> None:
    """Refuse before the work a place where a model could not be saved after it."""
    if standing(place).exists() and not overwrite:
        raise FileExistsError(f"{place} exists: choose another name, or pass --overwrite")
    free_place(place, kind, overwrite=overwrite)
