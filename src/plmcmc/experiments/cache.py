"""What is worked out once and kept: files named by all that they depend on, and arrays in them."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from plmcmc.data import DataError
from plmcmc.disk import locked, write
from plmcmc.experiments.study import Place
from plmcmc.flows import load, save

# What numpy raises of a file that is cut off, of something else, or of one with objects in it.
DAMAGE = (ValueError, EOFError, TypeError, AttributeError, RuntimeError, zlib.error, BadZipFile)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def shared_path(place: Place, kind: str, *known: Any) -> Path:
    """Return where something that experiments share is kept; the directory is made.

    Args:
        place: where experiments work.
        kind: what it is.
        known: all that it depends on: arrays, and what JSON has.
    """
    place.shared.mkdir(parents=True, exist_ok=True)
    words = json.dumps([_told(own) for own in known])
    return place.shared / f"{kind}-{sha256(words.encode()).hexdigest()[:12]}"


@contextmanager
def made_once(path: Path) -> Iterator[bool]:
    """Let one process at a time make what is kept at a path; yield whether it is still to be made.

    Others wait, and find it there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)

    def say() -> None:
        print(f"Waiting for another process that is creating {path}", file=sys.stderr)

    with locked(path.with_name(f".{path.name}.lock"), waiting=say):
        yield not path.exists()


def trained_once(path: Path, place: Place, train: Callable[[Path], Any]) -> Any:
    """Return a flow that is kept at a path, on the device; it is trained if it is not there yet.

    Args:
        path: of the flow.
        place: where experiments work.
        train: returns the flow; told where to save itself on its way, and to go on from.
    """
    checkpoint = path.with_suffix(".checkpoint")
    with made_once(path) as wanted:
        if wanted:
            save(train(checkpoint).cpu(), path)
        checkpoint.unlink(missing_ok=True)
    flow: Any = load(path)
    return flow.to(place.device).eval()


def _told(own: Any) -> Any:
    return sha256(own.tobytes()).hexdigest() if isinstance(own, np.ndarray) else own


def write_figure(path: Path, figure: Figure, *, dpi: float | str = "figure") -> None:
    """Write a figure as PNG, whole or not at all."""
    content = BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    write(path, content.getvalue())


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file, whole or not at all."""
    content = BytesIO()
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
    write(path, content.getvalue())


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file; objects in it are refused, not unpickled.

    Raises:
        DataError: if it is no such file, or a damaged one.
    """
    # Numpy leaves files open that it cannot read.
    content = BytesIO(path.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as arrays:
            return dict(arrays)
    except DAMAGE as problem:
        # Numpy's own words advise to unpickle, and name no file.
        raise DataError(
            f"{path} is damaged: expected arrays as written by plmcmc (.npz). Remove it and the "
            "files of the same name next to it; both are made again"
        ) from problem
