"""A model's two files, in a directory or a zip archive: written whole, and read with suspicion.

`config.json` says what the model is, `weights.safetensors` holds its numbers. Anyone may have
written them: nothing is unpickled, sizes and hashes are compared before anything is built, and what
is wrong is one `FileError`. A hash tells damage, not forgery: whoever writes a file can hash it.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor

from plmcmc import disk
from plmcmc.storage.archive import archive_of, is_archive, read_archive
from plmcmc.storage.strict_json import Fields, parsed, shown

CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
# Names of levels are the most that a description holds.
LARGEST_CONFIG = 2**24
# Of weights: some 100,000 names.
LARGEST_HEADER = 2**23
_AGAIN = "Get another copy of it, or save it again"


class FileError(ValueError):
    """A file is of the wrong kind or version, or damaged."""


def free_place(path: str | Path, kind: str, *, overwrite: bool) -> Path:
    """Return where a model may be written, or say why not."""
    path = Path(path)
    there = disk.standing(path)
    if there.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: choose another name, or pass overwrite=True")
    if there.exists() and not _holds_only_a_model(there):
        raise FileExistsError(
            f"{path} is not a saved {kind}, or contains other files: choose another name"
        )
    return path


def write_model(path: Path, described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    """Write a model's two files, whole or not at all; into an archive if the name ends in .zip."""
    weights = bytes_of({name: tensor.contiguous() for name, tensor in tensors.items()})
    config = _config(described, weights)
    contents = {CONFIG: config, WEIGHTS: weights}
    if is_archive(path):
        disk.write(path, archive_of(contents))
    else:
        disk.write_directory(path, contents)
    return path


def read_model(path: Path, form: str, version: int) -> tuple[Fields, dict[str, Tensor]]:
    """Return what `write_model` wrote, if it is whole, of this form and of this version.

    Raises:
        FileError: if it is another form or version.
        Exception: of many kinds, for `damage_named`.
    """
    path, kind = disk.standing(path), _kind_of(form)
    if not path.exists():
        raise FileError(f"{path} is not a saved {kind}: it does not exist. Correct the name")
    if path.is_dir() and not (path / CONFIG).is_file():
        raise FileError(f"{path} is not a saved {kind}: it has no {CONFIG}. Choose another")
    # Opening a pipe waits for somebody to write to it, and a device might never end.
    if not path.is_dir() and not path.is_file():
        raise FileError(
            f"{path} is not a saved {kind}: expected a directory or a regular file; this is a "
            "pipe or a device. Save its contents to a file, and load that"
        )
    contents = {} if path.is_dir() else read_archive(path, (CONFIG, WEIGHTS))
    config = contents[CONFIG] if contents else _bounded(path / CONFIG, LARGEST_CONFIG)
    described = _described(config)
    _check_form(path, described, form, version)
    _check_itself(described)
    own = described.inside("weights")
    weights = contents[WEIGHTS] if contents else _bounded(path / WEIGHTS, own.count("bytes"))
    _check_weights(weights, own)
    try:
        return described, tensors_of(weights)
    except (SafetensorError, LookupError, RuntimeError) as e:
        raise ValueError(f"{WEIGHTS}: {e}") from e


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while reading a model into a `FileError` that names it."""
    try:
        yield
    except FileError:
        raise
    except OSError as e:
        raise FileError(f"{path} cannot be read: {e}") from e
    except DAMAGE as e:
        raise FileError(f"{path} is damaged or was edited: {_brief(e)}. {_AGAIN}") from e


# Whatever torch, safetensors and zipfile raise, by how a file is damaged.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
)


def check_header(start: bytes) -> None:
    """Refuse the first 8 bytes of a safetensors file if they announce more names than ours have."""
    size = int.from_bytes(start, "little")
    if len(start) < 8 or size > LARGEST_HEADER:
        raise ValueError(f"expected a header of at most {LARGEST_HEADER} bytes; got {size}")


def check_same(found: Tensor, wanted: Tensor, name: str) -> None:
    """Refuse a tensor that has another shape or precision than the one it is to fill."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise ValueError(
            f"{name}: expected {wanted.dtype} of {tuple(wanted.shape)}; got {found.dtype} of "
            f"{tuple(found.shape)}"
        )


def _config(described: Mapping[str, Any], weights: bytes) -> bytes:
    """Return the description as text, with hashes of the weights and of itself."""
    found = {
        **described,
        "weights": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
    }
    text = json.dumps(found | {"sha256": _hash_of(found)}, indent=2, allow_nan=False) + "\n"
    content = text.encode()
    if len(content) > LARGEST_CONFIG:
        raise ValueError(f"the model's description takes {len(content)} bytes: too many levels")
    return content


def _hash_of(described: Mapping[str, Any]) -> str:
    """Return a hash of what a description says but for its hash, however it is laid out."""
    said = {name: value for name, value in described.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _bounded(path: Path, most: int) -> bytes:
    """Return a file of so many bytes at most: larger ones are not read."""
    # Not a pipe or a device, which might never end.
    if not path.is_file():
        raise ValueError(f"file {path.name} is missing")
    size = path.stat().st_size
    if size > most:
        raise ValueError(f"{path.name}: expected at most {most} bytes; got {size}")
    with path.open("rb") as file:
        return file.read(most)


def _described(content: bytes) -> Fields:
    if len(content) > LARGEST_CONFIG:
        raise ValueError(f"{CONFIG}: expected at most {LARGEST_CONFIG} bytes; got {len(content)}")
    try:
        return Fields(parsed(content), CONFIG)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{CONFIG} is not JSON as plmcmc writes it: {e}") from e


def _check_form(path: Path, described: Fields, form: str, version: int) -> None:
    """Refuse other files, and those of other versions, before anything else is looked at."""
    found, other = described.found.get("format"), described.found.get("version")
    if found != form:
        raise FileError(
            f"{path} is not a {form}: its {CONFIG} says format {shown(found)}. Expected the "
            f"output of a {_kind_of(form)}'s save"
        )
    if type(other) is not int or other != version:
        raise FileError(
            f"{path} is a {form} of version {shown(other)}, but this plmcmc reads version "
            f"{version}: load it with the plmcmc that wrote it, or create it again with this one"
        )


def _check_itself(described: Fields) -> None:
    if described.take("sha256", str) != _hash_of(described.found):
        raise ValueError(f"{CONFIG}, sha256: the rest of the file does not match this hash")


def _check_weights(content: bytes, own: Fields) -> None:
    if len(content) != own.count("bytes"):
        raise ValueError(f"{WEIGHTS}: expected {own.count('bytes')} bytes; got {len(content)}")
    if hashlib.sha256(content).hexdigest() != own.take("sha256", str):
        raise ValueError(f"{WEIGHTS} does not match its hash in {CONFIG}, weights.sha256")
    check_header(content[:8])


def _kind_of(form: str) -> str:
    """Return `flow` of the form `plmcmc-flow`."""
    return form.removeprefix("plmcmc-")


def _brief(error: BaseException) -> str:
    """Return what an error says, cut where it is long, without a full stop."""
    said = str(error) or type(error).__name__
    return (said if len(said) <= 600 else f"{said[:600]} ...").rstrip(".")


def _holds_only_a_model(path: Path) -> bool:
    if path.is_dir():
        return {entry.name for entry in path.iterdir()} <= {CONFIG, WEIGHTS}
    try:
        return path.is_file() and is_archive(path) and bool(read_archive(path, (CONFIG, WEIGHTS)))
    except (*DAMAGE, OSError):
        return False
