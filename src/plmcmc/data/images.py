"""Images from files: arrays, MNIST's format, and pictures in a directory or a zip archive."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plmcmc.data.incomplete import DataError

Images = NDArray[np.uint8]
# Channels that an image may have.
CHANNELS = (1, 3)
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMS = ".npy, an IDX file as MNIST's, or a directory or .zip of pictures"
# A header says how large an archive's picture is: larger ones are no images to learn from.
LARGEST_SIDE = 4096
# And what one takes, unpacked: a small archive may hold a file that fills the memory.
LARGEST_FILE = 2**27
# Modes of pictures with more than 8 bits a value, which would be cut off.
DEEP = ("I", "F")


def load_images(path: str | Path, *, first: int | None = None) -> Images:
    """Return images `(rows, height, width, channels)` of integers 0 to 255.

    Args:
        path: a `.npy` file `(rows, height, width)`, with channels last or without any; an IDX file
            such as MNIST's, compressed or not; a directory or `.zip` of pictures of one size, which
            are read in the order of their names.
        first: read only the first so many images.

    Raises:
        DataError: naming the file, and what is wrong with it.
    """
    path = Path(path)
    if first is not None and first < 1:
        raise ValueError(f"first must be at least 1; got {first}")
    if path.is_dir() or path.suffix.lower() == ".zip":
        images = _pictures(path, first)
    elif path.suffix.lower() == ".npy":
        images = _array(path, first)
    else:
        images = _idx(path)[:first]
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[-1] not in CHANNELS or not images.size:
        raise DataError(
            f"{path}: expected images of 1 or 3 channels, (rows, height, width[, channels]); got "
            f"shape {images.shape}"
        )
    return np.ascontiguousarray(images)


def load_labels(path: str | Path) -> NDArray[np.int64]:
    """Return labels `(rows,)` from an IDX file such as MNIST's.

    Raises:
        DataError: naming the file, and what is wrong with it.
    """
    labels = _idx(Path(path))
    if labels.ndim != 1:
        raise DataError(f"{path}: expected labels, one for each image; got shape {labels.shape}")
    return labels.astype(np.int64)


def channel_axis(shape: Sequence[int]) -> int | None:
    """Return the axis of the channels of rows of images, None where there is none.

    Files put them last, flows first; of `(rows, 3, height, 3)` they are the first.
    """
    if len(shape) != 4:
        return None
    return 3 if shape[3] in CHANNELS and shape[1] not in CHANNELS else 1


def _array(path: Path, first: int | None) -> Images:
    try:
        # Never pickled objects; mapped, so that a part is cheap.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as problem:
        raise DataError(f"{path} is not an array of numbers: {problem}") from problem
    if array.dtype != np.uint8:
        raise DataError(f"{path}: expected integers 0 to 255 (uint8); got {array.dtype}")
    return np.array(array[:first])


def _idx(path: Path) -> Images:
    """Read the format of MNIST: a magic number, sizes, then bytes."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as problem:
            raise DataError(f"{path} is damaged: {problem}") from problem
    zero, kind, axes = struct.unpack(">HBB", content[:4].ljust(4, b"\xff"))
    if zero != 0 or kind != 8:
        raise DataError(f"{path}: expected {FORMS}")
    start = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", content[4:start].ljust(4 * axes, b"\0"))
    size = int(np.prod([int(side) for side in shape], dtype=object))
    if len(content) - start != size:
        raise DataError(f"{path} is damaged: expected {size} bytes, got {len(content) - start}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _pictures(path: Path, first: int | None) -> Images:
    from PIL import Image, UnidentifiedImageError

    found, size = [], None
    for name, content in _contents(path, first):
        try:
            with Image.open(io.BytesIO(content)) as picture:
                if max(picture.size) > LARGEST_SIDE:
                    raise DataError(f"{path}, {name}: {picture.size} is too large to learn from")
                if picture.mode.startswith(DEEP):
                    raise DataError(
                        f"{path}, {name}: expected 8 bits per value; got mode {picture.mode}: "
                        "convert it first"
                    )
                own = np.asarray(picture.convert("L" if picture.mode in ("1", "L") else "RGB"))
        except (UnidentifiedImageError, OSError) as problem:
            raise DataError(f"{path}, {name} is not a picture: {problem}") from problem
        size = own.shape if size is None else size
        if own.shape != size:
            raise DataError(
                f"{path}, {name}: expected a picture of {size}, like those before it; got "
                f"{own.shape}"
            )
        found.append(own)
    if not found:
        raise DataError(f"{path}: expected pictures ({', '.join(PICTURES)}); found none")
    return np.stack(found)


def _contents(path: Path, first: int | None) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of pictures; of an archive nothing is written to the disk."""
    if path.is_dir():
        names = sorted(own for own in path.iterdir() if own.suffix.lower() in PICTURES)
        yield from ((own.name, own.read_bytes()) for own in names[:first])
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(n for n in archive.namelist() if n.lower().endswith(PICTURES))
            for name in names[:first]:
                if archive.getinfo(name).file_size > LARGEST_FILE:
                    raise DataError(f"{path}, {name} is too large for a picture to learn from")
                yield name, archive.read(name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as problem:
        raise DataError(f"{path} is damaged: {problem}") from problem
