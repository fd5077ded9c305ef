"""Saved files, spoilt at random by seed: byte by byte, field by field, tensor by tensor.

Most of what is spoilt is hashed again: the checks behind the hashes are then met.
"""

import io
import json
import random
import string
import struct
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

from flow_cases import CASES
from plmcmc.chains import Acceptance, Checkpoint, Completions, Schedule
from plmcmc.chains.checkpoint import _digest
from plmcmc.flows import save
from plmcmc.imputation import FlowImputer
from plmcmc.rng import Streams
from rehashed import hashed
from toy_tables import TINY, mixed, with_holes

FLOWS = ("linear", "nice, even", "realnvp, odd", "tabular, members", "glow", "all steps")
CONFIG, WEIGHTS = "config.json", "weights.safetensors"
KINDS = ("flow", "flow.zip", "imputer", "imputer.zip", "checkpoint")
HUGE = (2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**9, 10**12, 10**30, 10**39)
STRANGE = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    0.5,
    -1.5,
    1e308,
    "",
    "nice",
    "../x",
    "os.system",
    "\0",
)
STRANGE += ("x" * 5000, [], {}, [[]], [1, 2], [-1], {"name": "nice"}, "\ud800", *HUGE)
DTYPES = ("F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "F4", "C64", "X", "")


class Case(NamedTuple):
    """A number of a kind of file: the same number gives the same bytes."""

    kind: str
    number: int


class State(NamedTuple):
    completion: torch.Tensor


class Run:
    """A run whose checkpoint is loaded: rows, streams and recorders."""

    def __init__(self, path: Path):
        rows = torch.arange(6.0).reshape(3, 2)
        self.state, self.streams = State(rows), Streams.of_rows(0, "steps", 3)
        schedule = Schedule(1, 4)
        self.recorders = (Completions(schedule, rows), Acceptance(schedule, rows))
        self.checkpoint = Checkpoint(path, {"kernel": "walk", "seed": "3"})

    def save(self):
        self.checkpoint.save(2, self.state, self.streams, self.recorders, None)

    def load(self):
        return self.checkpoint.load(self.state, self.streams, self.recorders, None)


class Whole(NamedTuple):
    """Files as they should be: of models two by name, of checkpoints one."""

    flows: list[dict[str, bytes]]
    imputers: list[dict[str, bytes]]
    checkpoints: list[dict[str, bytes]]

    def of(self, kind: str) -> list[dict[str, bytes]]:
        name = kind.removesuffix(".zip")
        return getattr(self, f"{name}s")


def whole_files(folder: Path) -> Whole:
    """Save small models and a checkpoint, and return their bytes."""
    table, _ = with_holes(mixed(rows=30))
    flows = [save(CASES[name](), folder / f"flow-{n}") for n, name in enumerate(FLOWS)]
    imputer = FlowImputer(TINY, random_state=0).fit(table).save(folder / "imputer")
    run = Run(folder / "checkpoint")
    run.save()
    return Whole(
        [_contents(path) for path in flows],
        [_contents(imputer)],
        [{"checkpoint": run.checkpoint.path.read_bytes()}],
    )


def _contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in (CONFIG, WEIGHTS)}


def spoilt(case: Case, whole: Whole) -> dict[str, bytes] | bytes:
    """Return the files of a case: by name, or an archive's bytes."""
    rng = random.Random(f"{case.kind} {case.number}")
    files = dict(rng.choice(whole.of(case.kind)))
    if case.kind == "checkpoint":
        return {"checkpoint": _spoilt_checkpoint(files["checkpoint"], rng)}
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        files = rng.choice((_spoil_bytes, _spoil_config, _spoil_config, _spoil_tensors))(files, rng)
    if rng.random() < 0.75:
        files = _rehashed(files)
    return _spoilt_archive(files, rng) if case.kind.endswith(".zip") else files


def _spoil_bytes(files: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    name = rng.choice(list(files))
    return files | {name: changed_bytes(files[name], rng)}


def changed_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip, cut, double, fill or insert some bytes."""
    found, size = bytearray(content), len(content)
    start = rng.randrange(size + 1) if rng.random() < 0.5 else rng.randrange(min(size, 400) + 1)
    stop = min(size, start + rng.choice((1, 2, 4, 8, 64, 1000)))
    way = rng.randrange(7)
    if way == 0 and size:
        for _ in range(rng.choice((1, 1, 3, 20))):
            found[rng.randrange(size)] ^= 1 << rng.randrange(8)
    elif way == 1:
        del found[start:]
    elif way == 2:
        del found[start:stop]
    elif way == 3:
        found[start:start] = found[start:stop]
    elif way == 4:
        found[start:stop] = rng.choice((b"\0", b"\xff", b"[", b'"', b"9")) * (stop - start)
    elif way == 5:
        number = rng.choice((*HUGE, 0, 1, size)) % 2**64
        found[start : start + 8] = struct.pack(rng.choice("<>") + "Q", number)
    else:
        found[start:start] = rng.randbytes(rng.choice((1, 8, 300)))
    return bytes(found)


def _spoil_config(files: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    """Change a field of the description, or the text that it stands in."""
    try:
        config = json.loads(files[CONFIG])
    except (ValueError, RecursionError):
        return files
    changed = _changed(config, rng)
    if isinstance(config, dict) and isinstance(changed, dict) and rng.random() < 0.8:
        changed |= {name: config[name] for name in ("format", "version") if name in config}
    text = json.dumps(changed)
    if rng.random() < 0.1:
        words = ("NaN", "Infinity", "1e999", "-0", "9" * 5000, "[" * 3000, '{"a":1,"a":2}', "01")
        number = rng.choice([p for p, c in enumerate(text) if c in string.digits + "{["] or [0])
        text = text[:number] + rng.choice(words) + text[number + 1 :]
    return files | {CONFIG: text.encode("utf-8", "surrogatepass")}


def _changed(found, rng: random.Random):
    """Return JSON with something changed, at a depth."""
    if isinstance(found, dict) and found and rng.random() < 0.85:
        name = rng.choice(list(found))
        way = rng.random()
        if way < 0.1:
            return {key: value for key, value in found.items() if key != name}
        if way < 0.2:
            return found | {rng.choice(("random_state", "x", "", name + " ")): found[name]}
        if way < 0.25:
            return found | {name: found[rng.choice(list(found))]}
        return found | {name: _changed(found[name], rng)}
    if isinstance(found, list) and found and rng.random() < 0.85:
        place = rng.randrange(len(found))
        way = rng.random()
        if way < 0.15:
            return found[:place] + found[place + 1 :]
        if way < 0.3:
            return found + [found[place]] * rng.choice((1, 2, 200))
        return [*found[:place], _changed(found[place], rng), *found[place + 1 :]]
    if type(found) in (int, float) and rng.random() < 0.5:
        return rng.choice((found + 1, found - 1, 2 * found, -found, float(found), str(found)))
    return rng.choice(STRANGE)


def _spoil_tensors(files: dict[str, bytes], rng: random.Random) -> dict[str, bytes]:
    way = _values if rng.random() < 0.4 else _header
    return files | {WEIGHTS: way(files[WEIGHTS], rng)}


def _values(content: bytes, rng: random.Random) -> bytes:
    """Change a tensor: its numbers, precision, shape or name; or drop it."""
    try:
        tensors = tensors_of(content)
        name = rng.choice(list(tensors))
        own = tensors[name]
        if rng.random() < 0.15:
            del tensors[name]
        elif rng.random() < 0.15:
            tensors[rng.choice((name + "x", "flow", ""))] = tensors.pop(name)
        else:
            number = rng.choice((0, 1, -1, 255, 1e30, float("nan"), float("inf"), 2**62))
            changes = (
                lambda: torch.full_like(own, number),
                lambda: own.flatten()[:-1],
                lambda: own[None],
                lambda: own.double() if own.dtype == torch.float32 else own.float(),
                lambda: own.flatten().flip(0).reshape(own.shape),
                lambda: torch.zeros(0, 2**40),
            )
            tensors[name] = rng.choice(changes)().contiguous()
        return bytes_of(tensors)
    except Exception:
        # What is spoilt already cannot always be spoilt in this way, too.
        return content


def _header(content: bytes, rng: random.Random) -> bytes:
    """Change what the header says of a tensor, and leave the numbers."""
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
        own = header[rng.choice([name for name in header if name != "__metadata__"])]
        way = rng.randrange(6)
        if way == 0:
            own["dtype"] = rng.choice(DTYPES)
        elif way == 1:
            own["shape"] = rng.choice(
                ([], [0], [-1], [2**63], [2**32] * 2, [1.5], own["shape"][::-1])
            )
        elif way == 2:
            own["shape"] = _changed(own["shape"], rng)
        elif way == 3:
            own["data_offsets"] = _changed(own["data_offsets"], rng)
        elif way == 4:
            header = _changed(header, rng)
        else:
            header["__metadata__"] = rng.choice(
                ({}, {"a": "b"}, {"a": 1}, [], "x", {"a": "y" * 99})
            )
        text = json.dumps(header).encode("utf-8", "surrogatepass")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return content
    claimed = len(text) if rng.random() < 0.9 else rng.choice((0, size, *HUGE)) % 2**64
    return claimed.to_bytes(8, "little") + text + content[8 + size :]


def _rehashed(files: dict[str, bytes]) -> dict[str, bytes]:
    """Hash what is there now, if there is a description to note it in."""
    try:
        return files | {CONFIG: hashed(json.loads(files[CONFIG]), files[WEIGHTS])}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return files


def _spoilt_checkpoint(content: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return changed_bytes(content, rng)
    if rng.random() < 0.4:
        return _header(content, rng)
    tensors = tensors_of(content)
    try:
        tensors = tensors_of(_values(bytes_of(tensors), rng))
        identity = json.dumps({"kernel": "walk", "seed": "3"})
        if rng.random() < 0.2:
            identity = json.dumps(_changed(json.loads(identity), rng))
        noted = {"identity": identity, "sha256": _digest(tensors)}
        return bytes_of(tensors, noted)
    except Exception:
        return changed_bytes(content, rng)


def _spoilt_archive(files: dict[str, bytes], rng: random.Random) -> bytes:
    """Return an archive, at times with what no archive of ours has."""
    entries, way = list(files.items()), rng.random()
    if way < 0.05:
        entries.append((rng.choice(("../x", "/x", CONFIG, "a/b", WEIGHTS, "\0")), b"x"))
    elif way < 0.1:
        entries.pop(rng.randrange(2))
    method = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED
    content = packed(dict(entries) if way >= 0.05 else entries, method)
    if rng.random() < 0.4:
        content = _record(content, rng) if rng.random() < 0.7 else changed_bytes(content, rng)
    return content


def packed(files, method: int = zipfile.ZIP_STORED) -> bytes:
    place = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(place, "w", method) as archive:
        # zipfile itself warns of a name that stands there twice.
        warnings.simplefilter("ignore")
        for name, content in files.items() if isinstance(files, dict) else files:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return place.getvalue()


def _record(content: bytes, rng: random.Random) -> bytes:
    """Write a number into one of the archive's records."""
    signs = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06")
    starts = [p for sign in signs for p in (content.find(sign), content.rfind(sign)) if p >= 0]
    found = bytearray(content)
    start = rng.choice(starts) + rng.randrange(4, 46)
    number = rng.choice((0, 1, 8, 12, 0xFF, 0xFFFF, 0xFFFFFFFF, len(content), rng.getrandbits(32)))
    size = rng.choice((1, 2, 4))
    found[start : start + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")
    return bytes(found)
