"""A few files in a zip archive, as they are: not compressed, and never unpacked to the disk.

So an archive takes no more memory than it is large, and names in it lead nowhere.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

# The last record of an archive without a comment, and what stands before it in those over 4 GB.
_END, _END_SIZE = b"PK\x05\x06", 22
_LARGE, _LARGE_SIZE = b"PK\x06\x07", 20
# A directory of a few entries takes this much at most.
_DIRECTORY = 4096
# Archives of the same files are the same, whenever they were written.
_TIME = (1980, 1, 1, 0, 0, 0)
_SYMLINK_SHIFT, _ENCRYPTED = 16, 0x1


def is_archive(path: Path) -> bool:
    """Whether a model of this name is, or would be, an archive."""
    return path.suffix.lower() == ".zip" and not path.is_dir()


def archive_of(contents: Mapping[str, bytes]) -> bytes:
    """Return an archive of these files.

    Raises:
        ValueError: if they are too large for one.
    """
    file = io.BytesIO()
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
            for name, content in contents.items():
                entry = zipfile.ZipInfo(name, _TIME)
                entry.external_attr = (stat.S_IFREG | 0o644) << _SYMLINK_SHIFT
                archive.writestr(entry, content)
    except zipfile.LargeZipFile:
        raise ValueError("over 2 GB, which is too much for a zip: choose a directory") from None
    return file.getvalue()


def read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the files of an archive that holds these, once each, and no others.

    Raises:
        ValueError: saying what is wrong with it.
        zipfile.BadZipFile: as well.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        _check_end(file, size, len(names))
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                _check_names([entry.filename for entry in entries], names)
                for entry in entries:
                    _check_entry(entry, size)
                return {entry.filename: archive.read(entry) for entry in entries}
        except (OSError, struct.error) as e:
            # A place before its beginning, or a record that ends too early.
            raise ValueError(f"the archive's directory is inconsistent: {e}") from e


def _check_end(file: BinaryIO, size: int, count: int) -> None:
    """Look at the last record before zipfile makes an object of every entry that it promises."""
    file.seek(max(0, size - _END_SIZE - _LARGE_SIZE))
    tail = file.read(_END_SIZE + _LARGE_SIZE)
    end = tail[-_END_SIZE:]
    if len(end) < _END_SIZE or not end.startswith(_END):
        raise ValueError("it is not a zip archive, or was truncated, or has a comment")
    if tail[:4] == _LARGE or int.from_bytes(end[12:16], "little") > _DIRECTORY:
        raise ValueError(f"expected an archive of {count} files; it lists many more")
    file.seek(0)


def _check_names(found: Sequence[str], names: Sequence[str]) -> None:
    if sorted(found) != sorted(names):
        listed = ", ".join(repr(name)[:60] for name in found[:5])
        raise ValueError(f"expected {' and '.join(names)}, once each; the archive has {listed}")


def _check_entry(entry: zipfile.ZipInfo, size: int) -> None:
    if stat.S_ISLNK(entry.external_attr >> _SYMLINK_SHIFT):
        raise ValueError(f"{entry.filename} is a link in the archive; expected a regular file")
    if entry.flag_bits & _ENCRYPTED:
        raise ValueError(f"{entry.filename} is encrypted: unpack it, and load the directory")
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(
            f"{entry.filename} is compressed, but plmcmc writes uncompressed archives: unpack it, "
            "and load the directory"
        )
    if entry.file_size > size:
        raise ValueError(f"{entry.filename} is listed as larger than the archive")
